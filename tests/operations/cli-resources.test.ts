/** Commands that name a resource where a task is meant. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { checkBuild, endAll, leasehold } from "../support/cli.js";

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
