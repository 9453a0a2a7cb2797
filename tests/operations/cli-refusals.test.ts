/** Arguments that contradict each other, or that the command line would have to change, are refused. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { checkBuild, endAll, leasehold, type Serving, serve } from "../support/processes/cli.js";

let server: Serving;
beforeAll(async () => {
  checkBuild();
  server = await serve();
});
afterAll(() => endAll());

/** With the store in the environment, because -- may follow. */
const run = (args: readonly string[], { input = "", namespace = "default" } = {}) =>
  leasehold(args, {
    env: { LEASEHOLD_STORE: server.url, LEASEHOLD_NAMESPACE: namespace },
    input,
  });

async function refuses(args: readonly string[], why: string, input?: string): Promise<void> {
  const { code, stdout, stderr } = await run(args, { input });
  expect({ args, code, stdout, stderr }).toEqual({
    args,
    code: 64,
    stdout: "",
    stderr: expect.stringContaining(why),
  });
}

it.each(["keys", "audit"])("%s list refuses a tenant together with --all", async (command) => {
  await refuses([command, "list", "--all", "--namespace", "default"], "--all, not both");
  // A namespace of the environment is a default: the server itself refuses to list all tenants.
  const { stderr } = await run([command, "list", "--all"], { namespace: "shop" });
  expect(stderr).toContain("a server shows no others");
});

it.each([
  ["--long-held", "released"],
  ["--long-held", "revoked"],
  ["--expiring-within", "expired"],
])("ls refuses %s with --state %s, which no lease can match", async (filter, state) => {
  await refuses(["ls", filter, "1h", "--state", state], `leave out --state ${state}`);
});

it.each(["held", "live", "any"])("ls takes filters of live leases with --state %s", async (state) =>
  expect(await run(["ls", "--long-held", "0", "--state", state])).toMatchObject({ code: 0 }),
);

it.each(["2999-11-30T10:00", "2999-11-30T10:00:00", "2999-11-30"])(
  "enqueue refuses --scheduled-at %s: it has no time zone",
  async (time) => refuses(["enqueue", "k", "--scheduled-at", time], "and a time zone"),
);

it("enqueue takes a time with an offset", async () => {
  const { stdout: id } = await run(["enqueue", "k", "--scheduled-at", "2999-11-30T10:00:00+01:00"]);
  const { stdout } = await run(["tasks", id, "--json"]);
  expect(JSON.parse(stdout)).toMatchObject({ scheduledAt: "2999-11-30T09:00:00.000Z" });
});

it("enqueue takes a version of the kind, from 1 on", async () => {
  const { stdout: id } = await run(["enqueue", "mail", "{}", "--kind-version", "2"]);
  expect((await run(["tasks", id])).stdout).toContain("kind mail version 2,");
  expect(await run(["enqueue", "mail", "{}", "--kind-version", "0"])).toMatchObject({ code: 64 });
});

it.each([
  [["acquire", "r"], []],
  [
    ["run", "r"],
    ["--", "true"],
  ],
  [
    ["elect", "e"],
    ["--", "true"],
  ],
  [["worker", "--handlers", "handlers.js"], []],
  [["generate", "run"], []],
])("%j refuses a blank --holder", async (words, end) =>
  refuses([...words, "--holder", " ", ...end], "must not be blank"),
);

it.each([
  ["run", "r", "--metrics-host", "127.0.0.1", "--", "true"],
  ["elect", "e", "--metrics-host", "127.0.0.1", "--", "true"],
  ["run", "r", "--metrics-prefix-depth", "2", "--", "true"],
  ["run", "r", "--no-metrics-names", "--", "true"],
])("%s %s %s has no effect without --metrics-port", async (...words) =>
  refuses(words, `${words[2]} has no effect without --metrics-port`),
);

it("serve refuses the limit none where there must be one, and names those that may be none", async () =>
  refuses(
    ["serve", "--limits", "bodyBytes=none"],
    "limits.bodyBytes must be a number: no limit (none) is for lateMs, leases",
  ));
