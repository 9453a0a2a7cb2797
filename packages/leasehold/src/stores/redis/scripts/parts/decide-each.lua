-- Calls `decide` for each request, with its grant id and its shared argument list.
-- A failing request does not stop the others.

local common = {}
for i = 1, lists do
  common[i] = {unpack(ARGV, 4 + (i - 1) * length, 3 + i * length)}
end
local answers = {now}
local at = 3 + lists * length
for i = 1, #ARGV - at do
  local id, c = ARGV[at + i], common[1]
  if lists > 1 then
    id, c = string.sub(id, 1, idLength), common[tonumber(string.sub(id, idLength + 1))]
  end
  key, queue = KEYS[indexes + (i - 1) * keysEach + 1], KEYS[indexes + i * keysEach]
  local ok, answer = pcall(decide, id, c)
  if not ok then
    answer = {'failed', type(answer) == 'table' and answer.err or tostring(answer)}
  end
  answers[i + 1] = answer
end
return answers
