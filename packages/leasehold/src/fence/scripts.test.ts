import { testGoldenFiles } from "../../../../tests/support/runner/golden.js";
import { redisGuard } from "./redis.js";

const sent: string[] = [];
const guard = redisGuard(async (_, script = "") => {
  sent.push(script);
  return [1, "OK"];
});
await guard.write("invoice", 1, { script: "return redis.call('SET', KEYS[1], ARGV[1])" });
const [guarded = ""] = sent;

testGoldenFiles({
  folder: new URL("./scripts", import.meta.url),
  test: "packages/leasehold/src/fence/scripts.test.ts",
  texts: { "guarded-write.lua": guarded },
  explains: ["KEYS", "ARGV", "Reply"],
});
