// skinny gemms
