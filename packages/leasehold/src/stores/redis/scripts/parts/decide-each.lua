-- Calls `decide` for each request, with its lease id and its shared argument list.
-- A failing request does not stop the others.

local answers = {now}
local i, ids = 0, 3 + lists * (length + 1)
for list = 1, lists do
  local from = 3 + (list - 1) * (length + 1)
  local c = {unpack(ARGV, from + 1, from + length)}
  for _ = 1, tonumber(ARGV[from + length + 1]) do
    i = i + 1
    key, queue = KEYS[indexes + (i - 1) * keysEach + 1], KEYS[indexes + i * keysEach]
    local ok, answer = pcall(decide, ARGV[ids + i], c)
    if not ok then
      answer = {'failed', type(answer) == 'table' and answer.err or tostring(answer)}
    end
    answers[i + 1] = answer
  end
end
return answers
