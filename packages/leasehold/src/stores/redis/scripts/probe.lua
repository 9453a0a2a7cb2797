-- Tries the commands of the other scripts: fails if the user lacks a right, or if the server refuses
-- writes. Leaves nothing behind.
--
-- KEYS   the record of no resource
-- ARGV   the channel of no namespace
-- Reply  'ok'

redis.call('TIME')
redis.call('HSET', KEYS[1], 'probe', '1')
redis.call('HMGET', KEYS[1], 'probe')
redis.call('PEXPIREAT', KEYS[1], '9999999999999')
redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
redis.call('ZADD', KEYS[1], 0, 'probe')
redis.call('ZREM', KEYS[1], 'probe')
redis.call('PUBLISH', ARGV[1], '')
return 'ok'
