-- KEYS: sale, users. ARGV: user. Returns nil (no such sale), or the user's value, '' if there is none.
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
return redis.call('HGET', KEYS[2], ARGV[1]) or ''
