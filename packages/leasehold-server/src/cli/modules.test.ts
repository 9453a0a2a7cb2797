/** Modules that never settle. Other mistakes in them are tested by those who use the modules. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished } from "vitest";
import { LOAD_TIMEOUT_MS, loadModule } from "./modules.js";

async function file(source: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-modules-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, "module.mjs");
  await writeFile(path, source);
  return path;
}

it("names a file whose top-level await never settles", async () => {
  const { clock } = manualEnv();
  const loading = loadModule(await file("await new Promise(() => {});"), async () => {}, clock);
  const failure = loading.then(
    () => "loaded",
    ({ message }: Error) => message,
  );
  while (clock.pendingTimers === 0) await new Promise((resolve) => setImmediate(resolve));
  await clock.advance(LOAD_TIMEOUT_MS);
  expect(await failure).toMatch(/^a top-level await of .*module.mjs has not settled after 2m$/);
});

it("names a file whose function never settles", async () => {
  const { clock } = manualEnv();
  let begin = () => {};
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const use = () => {
    begin();
    return new Promise<never>(() => {});
  };
  const loading = loadModule(await file("export const a = 1;"), use, clock);
  const failure = loading.catch(({ message }: Error) => message);
  await begun;
  await clock.advance(LOAD_TIMEOUT_MS);
  expect(await failure).toMatch(
    /^the function that .*module.mjs exports has not settled after 2m$/,
  );
});
