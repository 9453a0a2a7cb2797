/** The types that users get, held by the compiler: see tests/packaging/types/face.ts. */
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { checkBuild } from "../support/processes/cli.js";
import { typescript } from "../support/processes/compile.js";

it("hold what they promise, and refuse what they should", async () => {
  checkBuild();
  await expect(typescript(fileURLToPath(new URL("./types", import.meta.url)))).resolves.toBe(
    undefined,
  );
});
