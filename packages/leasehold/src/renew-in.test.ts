import { expect, it } from "vitest";
import { connect as connectInBrowser } from "./browser.js";
import { systemClock, systemEnv } from "./env/index.js";
import { type ConnectOptions, connect } from "./index.js";
import { InvalidOptionError, type LeaseStore, type ThreadModule } from "./lease/index.js";
import { threadFor } from "./renew-in.js";
import { memory } from "./stores/memory/index.js";

const URL_OF_REDIS = "redis://user:secret@127.0.0.1:1";
const thread = { renewIn: "thread" } as const;

it.each<
  [what: string, source: Parameters<typeof connect>[0], options: ConnectOptions, says: RegExp]
>([
  ["memory:", "memory:", thread, /^renewIn needs a store outside this process/],
  ["pglite:", "pglite:", thread, /^renewIn needs a store outside this process/],
  ["a source that is no URL", memory(), thread, /^renewIn needs a URL as the source/],
  [
    "another value",
    URL_OF_REDIS,
    { renewIn: "worker" as never },
    /^renewIn must be "loop" or "thread"$/,
  ],
  ["a clock", URL_OF_REDIS, { ...thread, env: { clock: systemClock } }, /leave out env\.clock/],
  [
    "maxBlockedMs alone",
    URL_OF_REDIS,
    { maxBlockedMs: 500 },
    /^maxBlockedMs needs renewIn: "thread"$/,
  ],
  [
    "a short maxBlockedMs",
    URL_OF_REDIS,
    { ...thread, maxBlockedMs: 99 },
    /^maxBlockedMs must be from 100/,
  ],
  [
    "an endless maxBlockedMs",
    URL_OF_REDIS,
    { ...thread, maxBlockedMs: Infinity },
    /^maxBlockedMs must be/,
  ],
])("refuses %s", async (_, source, options, says) => {
  const refused = await connect(source, options as object).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(InvalidOptionError);
  expect((refused as Error).message).toMatch(says);
  expect((refused as Error).message).not.toContain("secret");
});

it("refuses a thread where there is none, as in browsers", async () => {
  await expect(connectInBrowser("https://leases.example", thread)).rejects.toMatchObject({
    code: "INVALID_OPTION",
    message: 'renewIn needs a worker thread of Node; or use renewIn: "loop"',
  });
});

it("refuses a store whose grants are bound to their client", async () => {
  const module: ThreadModule = {
    processClock: systemClock,
    startRenewalThread: () => Promise.reject(new Error("started")),
  };
  const found = await threadFor("zookeeper://127.0.0.1:1", thread, () => Promise.resolve(module));
  const capabilities = { grants: "bound" } as LeaseStore["capabilities"];
  const bound = { capabilities } as LeaseStore;
  await expect(found?.start(bound, systemEnv, undefined)).rejects.toMatchObject({
    code: "INVALID_OPTION",
    path: "renewIn",
  });
});
