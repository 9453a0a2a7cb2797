/** Commands that name a resource where a task is meant, or by a name that nothing can have. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { checkBuild, endAll, leasehold } from "../support/processes/cli.js";

let directory: string;
beforeAll(async () => {
  checkBuild();
  directory = await mkdtemp(join(tmpdir(), "leasehold-"));
});
afterAll(async () => {
  await endAll();
  await rm(directory, { recursive: true });
});

it.each([
  "acquire task:1",
  "run task:1 -- true",
  "elect task:1 -- true",
  "show task:1",
  "why task:1",
  "ls task:",
  "revoke task:1 --reason stuck",
  "pause task:1 --reason stuck",
  "pause --prefix task: --reason stuck",
  "resume task:1 --reason mended",
])("%s points to the tasks", async (words) => {
  const store = `pglite:${join(directory, "db")}`;
  const { code, stderr } = await leasehold(words.split(" "), { env: { LEASEHOLD_STORE: store } });
  expect([code, stderr]).toEqual([64, expect.stringContaining("leasehold tasks")]);
});

const LONG = "é".repeat(129);
const MUST_NOT_BE_EMPTY = "must not be empty";
const AT_MOST = "must be at most 256 bytes of UTF-8";

it.each([
  [["pause", "", "--reason", "r"], MUST_NOT_BE_EMPTY],
  [["pause", LONG, "--reason", "r"], AT_MOST],
  [["pause", "--queue", "", "--reason", "r"], MUST_NOT_BE_EMPTY],
  [["pause", "--queue", LONG, "--reason", "r"], AT_MOST],
  [["pause", "--prefix", LONG, "--reason", "r"], AT_MOST],
  [["resume", "", "--reason", "r"], MUST_NOT_BE_EMPTY],
  [["resume", "--queue", "", "--reason", "r"], MUST_NOT_BE_EMPTY],
  [["tasks", "pause-queue", "", "--reason", "r"], MUST_NOT_BE_EMPTY],
  [["tasks", "pause-queue", LONG, "--reason", "r"], AT_MOST],
  [["tasks", "resume-queue", "", "--reason", "r"], MUST_NOT_BE_EMPTY],
  [["revoke", "", "--reason", "r"], MUST_NOT_BE_EMPTY],
  [["revoke", LONG, "--reason", "r"], AT_MOST],
  [["why", ""], MUST_NOT_BE_EMPTY],
  [["show", ""], MUST_NOT_BE_EMPTY],
  [["show", LONG], AT_MOST],
  [["ls", LONG], AT_MOST],
  [["watch", LONG], AT_MOST],
])("%j is refused before the store is opened", async (args, problem) => {
  // Nothing listens there.
  const env = { LEASEHOLD_STORE: "postgres://127.0.0.1:1/app" };
  const { code, stderr } = await leasehold(args, { env });
  expect([code, stderr]).toEqual([64, expect.stringContaining(problem)]);
});

it("the prefix '' is the one of all resources, and goes to the store", async () => {
  const env = { LEASEHOLD_STORE: "postgres://127.0.0.1:1/app" };
  const { code } = await leasehold(["pause", "--prefix", "", "--reason", "r"], { env });
  expect(code).toBe(69);
});
