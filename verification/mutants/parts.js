/**
 * What is mutated, which tests must notice, and the score that each part must reach.
 *
 * Only unit tests run: they need no server, so a mutant takes a second. Statements for an engine (SQL, Lua)
 * are not in any part: the conformance suites test them on the engine.
 */
import { matchesGlob } from "node:path";

const LIBRARY = "packages/leasehold/src";
const SERVER = "packages/leasehold-server/src/http";

/** What stores share besides their decisions: connections, failures, own grants. */
const STORES =
  "{blocked-ports,connecting,driver,opening-server,own,rounds,sightings,tls,tls-connections,url-parameters}";
const RULES = [`${LIBRARY}/lease/rules.ts`, `${LIBRARY}/lease/queue.ts`];

/**
 * @typedef {object} Part
 * @property {string} name
 * @property {string} what for people
 * @property {number} target the least score, in percent
 * @property {readonly string[]} mutate globs; `!` excludes
 * @property {readonly string[]} tests globs of the test files that run; `!` excludes
 */

/** @type {readonly Part[]} */
export const PARTS = [
  {
    name: "rules",
    what: "what a store decides: the rules of leases and of the wait queue",
    target: 90,
    mutate: RULES,
    tests: [`${LIBRARY}/lease/{rules,queue}.test.ts`],
  },
  {
    name: "election",
    what: "electors, singletons, shards",
    target: 90,
    mutate: [`${LIBRARY}/election/*.ts`],
    // The test that is left out has a thousand shards, and takes seconds.
    tests: [`${LIBRARY}/election/*.test.ts`, `!${LIBRARY}/election/shards-scale.test.ts`],
  },
  {
    name: "fence",
    what: "guards that refuse stale tokens",
    target: 90,
    mutate: [`${LIBRARY}/fence/{guard,http}.ts`],
    tests: [`${LIBRARY}/fence/{guard,http}.test.ts`],
  },
  {
    name: "control",
    what: "keys, audit, pauses, limits, history",
    target: 90,
    mutate: [`${LIBRARY}/control/*.ts`],
    tests: [`${LIBRARY}/control/*.test.ts`],
  },
  {
    name: "lease",
    what: "leases, independent of any engine, without the rules, and what stores share",
    target: 90,
    mutate: [
      `${LIBRARY}/lease/*.ts`,
      ...RULES.map((file) => `!${file}`),
      `${LIBRARY}/store-kit/${STORES}.ts`,
    ],
    // The test that is left out has a thousand waiters, and takes a minute.
    tests: [
      `${LIBRARY}/lease/*.test.ts`,
      `!${LIBRARY}/lease/acquire.test.ts`,
      `${LIBRARY}/store-kit/${STORES}.test.ts`,
    ],
  },
  {
    name: "once",
    what: "work that is done once",
    target: 80,
    mutate: [`${LIBRARY}/once/*.ts`],
    tests: [`${LIBRARY}/once/*.test.ts`],
  },
  {
    name: "renewal-thread",
    what: "renewals in a thread of their own",
    target: 80,
    mutate: [`${LIBRARY}/renewal-thread/{answers,messages,renewals}.ts`],
    tests: [`${LIBRARY}/renewal-thread/*.test.ts`],
  },
  {
    name: "task-rules",
    what: "what a store decides about tasks",
    target: 80,
    mutate: [`${LIBRARY}/tasks/rules.ts`],
    tests: [`${LIBRARY}/tasks/rules*.test.ts`],
  },
  {
    name: "worker",
    what: "the worker: claims, handlers, completions",
    target: 80,
    mutate: [`${LIBRARY}/tasks/{worker,completer,ready}.ts`],
    tests: [`${LIBRARY}/tasks/*.test.ts`],
  },
  {
    name: "task-plans",
    what: "schedules, limits, kinds and keys of tasks",
    target: 80,
    mutate: [
      `${LIBRARY}/tasks/{schedules,kinds}/*.ts`,
      `${LIBRARY}/tasks/{blocked-keys,concurrency,keys,limit-client,limits}.ts`,
    ],
    tests: [
      `${LIBRARY}/tasks/{schedules,kinds}/*.test.ts`,
      `${LIBRARY}/tasks/{concurrency,keys,limit-client,limits}.test.ts`,
    ],
  },
  {
    name: "server",
    what: "the server's access, limits and authentication",
    target: 80,
    mutate: [`${SERVER}/{auth,limits}/*.ts`],
    tests: [`${SERVER}/{auth,limits}/*.test.ts`],
  },
];

/** Whether the part mutates this file. */
export function isMutated(/** @type {Part} */ { mutate }, /** @type {string} */ file) {
  const isIn = (/** @type {string} */ glob) => matchesGlob(file, glob);
  return (
    !file.endsWith(".test.ts") &&
    mutate.some((glob) => !glob.startsWith("!") && isIn(glob)) &&
    !mutate.some((glob) => glob.startsWith("!") && isIn(glob.slice(1)))
  );
}
