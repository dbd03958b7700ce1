// awq gemv
