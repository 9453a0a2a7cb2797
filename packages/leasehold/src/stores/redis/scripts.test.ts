import { testGoldenFiles } from "../../../../../tests/support/runner/golden.js";
import { COMPATIBILITY_SCRIPTS } from "./compatibility-scripts.js";
import { LEAN_SCRIPTS } from "./lean-scripts.js";
import { PROBE, SCRIPTS } from "./scripts.js";

function filesOf(scripts: Readonly<Record<string, string>>, prefix = "") {
  const files = Object.entries(scripts).map(([name, text]) => [`${prefix}${name}.lua`, text]);
  return Object.fromEntries(files) as Readonly<Record<string, string>>;
}

testGoldenFiles({
  folder: new URL("./scripts", import.meta.url),
  test: "packages/leasehold/src/stores/redis/scripts.test.ts",
  texts: {
    ...filesOf(SCRIPTS),
    ...filesOf(LEAN_SCRIPTS),
    ...filesOf({ probe: PROBE }),
    ...filesOf(COMPATIBILITY_SCRIPTS, "compatibility-"),
  },
  explains: ["KEYS", "ARGV", "Reply"],
});
