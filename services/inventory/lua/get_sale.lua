-- KEYS: sale. Returns the sale, or nil.
return sale_read(KEYS[1]) or false
