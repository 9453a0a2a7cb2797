/** Client, HTTP and server together against what the suite of task stores says of them; http.test.ts has the leases. */
import { readFileSync } from "node:fs";
import { dirname, posix } from "node:path";
import { expect, it } from "vitest";
import { exerciseTaskStore } from "../../packages/leasehold/src/testing/index.js";
import { readModule } from "../support/documents/modules.js";
import { HTTP_OVER_MEMORY, HTTP_OVER_POSTGRES, tasksOn } from "../support/suites/suite-engines.js";

for (const engine of [HTTP_OVER_MEMORY, HTTP_OVER_POSTGRES]) exerciseTaskStore(tasksOn(engine));

it("the client loads neither node nor a schema library", () => {
  const root = new URL("../../packages/leasehold/src/", import.meta.url);
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
  const hashes = ["@noble/hashes/sha2.js", "@noble/hashes/utils.js"];
  const known = [...hashes, "eventsource-parser", "tinyqueue"];
  expect([...packages].filter((name) => !known.includes(name))).toEqual([]);
});
