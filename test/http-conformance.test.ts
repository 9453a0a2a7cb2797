/** Client, HTTP and server together against the suite of task stores; conformance.test.ts has the leases. */
import { readFileSync } from "node:fs";
import { dirname, posix } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exerciseTaskStore } from "../src/testing/index.js";
import { openHttpHarness } from "./support/http-harness.js";
import { readModule } from "./support/modules.js";

exerciseTaskStore({
  name: "http over memory",
  vitest: { afterAll, beforeAll, describe, expect, it },
  async open() {
    const harness = await openHttpHarness();
    return {
      store: harness.tasks,
      generator: harness.generator,
      close: () => harness.close(),
    };
  },
});

it("the client loads neither node nor a schema library", () => {
  const root = new URL("../src/", import.meta.url);
  const seen = new Set<string>();
  const packages = new Set<string>();
  const visit = (path: string): void => {
    if (seen.has(path)) return;
    seen.add(path);
    for (const { specifier, kind } of readModule(path, readFileSync(new URL(path, root), "utf8"))
      .imports) {
      if (kind === "type" || specifier === null) continue;
      if (!specifier.startsWith(".")) packages.add(specifier);
      else visit(posix.join(dirname(path), specifier).replace(/\.js$/, ".ts"));
    }
  };
  visit("stores/http/index.ts");
  expect(seen.size).toBeGreaterThan(10);
  const known = ["@noble/hashes/sha2.js", "@noble/hashes/utils.js", "tinyqueue", "uuid"];
  expect([...packages].filter((name) => !known.includes(name))).toEqual([]);
});
