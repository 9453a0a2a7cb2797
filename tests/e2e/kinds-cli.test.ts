/** `leasehold kinds` as people call it, on a PGlite directory and on a server, which checks new tasks. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeAll, expect, it } from "vitest";
import { checkBuild, leasehold, serve } from "../support/processes/cli.js";
import { endAll, temporaryFolder } from "../support/processes/processes.js";

beforeAll(checkBuild);
afterEach(() => endAll());

const TIMEOUT_MS = 120_000;
const SCHEMA = { type: "object", required: ["cents"] };

/** What an operator does with kinds, on a store without any. */
async function operate(store: string): Promise<void> {
  const run = (...args: string[]) => leasehold(args, { env: { LEASEHOLD_STORE: store } });
  const file = join(await temporaryFolder(), "invoice.json");
  await writeFile(file, JSON.stringify(SCHEMA));
  const publish = () => run("kinds", "publish", "invoice", "2", file);
  expect((await publish()).stdout).toBe('"invoice" version 2 is published');
  expect((await publish()).stdout).toBe('"invoice" version 2 is as it was');
  await writeFile(file, JSON.stringify({ ...SCHEMA, title: "Invoice" }));
  expect((await publish()).stdout).toBe('"invoice" version 2 is changed');
  expect(JSON.parse((await run("kinds", "show", "invoice", "2")).stdout)).toEqual({
    ...SCHEMA,
    title: "Invoice",
  });
  expect((await run("kinds", "list")).stdout).toMatch(/^kind .*\ninvoice +2 /);
  const { items } = JSON.parse((await run("kinds", "list", "--json")).stdout);
  expect(items).toMatchObject([{ kind: "invoice", version: 2 }]);
  const none = await run("kinds", "show", "invoice", "1");
  expect([none.code, none.stderr]).toEqual([64, expect.stringContaining("is not published")]);
  await writeFile(file, JSON.stringify({ $ref: "https://example.com" }));
  const refused = await publish();
  expect(refused.code).toBe(64);
  expect(refused.stderr).toContain('schema.$ref must begin with "#"');
  await writeFile(file, "{");
  expect((await publish()).stderr).toContain("is not JSON: line 1, column 2");
  const withdraw = () =>
    run("kinds", "withdraw", "invoice", "2", "--reason", "replaced", "--actor", "eve");
  expect((await withdraw()).stdout).toBe('"invoice" version 2 is withdrawn');
  expect(await withdraw()).toMatchObject({ code: 1 });
  expect((await run("kinds", "list")).stdout).toBe("no published kinds");
  const audit = await run("audit", "list", "--json");
  const entries = JSON.parse(audit.stdout) as { action: string; phase: string }[];
  const actions = entries.filter(({ phase }) => phase !== "intent").map(({ action }) => action);
  expect(actions).toContain("kind.withdraw");
}

it(
  "publishes, lists, shows and withdraws kinds of a database, with entries in its audit",
  async () => operate(`pglite:${join(await temporaryFolder(), "data")}`),
  TIMEOUT_MS,
);

it(
  "does the same on a server, which checks new tasks against what is published",
  async () => {
    const { url } = await serve("memory:");
    await operate(url);
    const file = join(await temporaryFolder(), "mail.json");
    await writeFile(file, JSON.stringify(SCHEMA));
    const run = (...args: string[]) => leasehold(args, { env: { LEASEHOLD_STORE: url } });
    await run("kinds", "publish", "mail", "1", file);
    const refused = await run("enqueue", "mail", "{}");
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain('required property "cents"');
    expect((await run("enqueue", "mail", '{"cents":1}')).code).toBe(0);
    // Of a version that is not published, with a life of its own.
    const keep = ["--keep-done", "1h", "--keep-dead", "2h"];
    const { stdout: id } = await run("enqueue", "mail", "{}", "--kind-version", "2", ...keep);
    expect((await run("tasks", id)).stdout).toContain("kind mail version 2,");
    expect(await run("enqueue", "mail", "{}", "--kind-version", "0")).toMatchObject({ code: 64 });
  },
  TIMEOUT_MS,
);
