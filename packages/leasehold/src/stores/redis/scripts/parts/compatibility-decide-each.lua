-- Calls `decide` for each request with its key and up to three arguments.
-- A request that fails does not stop the others.

local width = (#ARGV - 1) / #KEYS
local answers = {}
for i = 1, #KEYS do
  local at = (i - 1) * width + 1
  local ok, answer = pcall(decide, KEYS[i], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
  if not ok then
    answer = {'failed', type(answer) == 'table' and answer.err or tostring(answer)}
  end
  answers[i] = answer
end
return answers
