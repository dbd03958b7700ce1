// rotary embedding
