/** Who can reach a server, by real processes: this machine alone until there is a key. */
import { once } from "node:events";
import { connect } from "node:net";
import { afterEach, beforeAll, expect, it, onTestFinished } from "vitest";
import { freshPglite } from "../support/engines/pglite.js";
import {
  type Cli,
  checkBuild,
  endAll,
  leasehold,
  type Serving,
  serve,
} from "../support/processes/cli.js";

beforeAll(() => checkBuild());
afterEach(() => endAll());

const ANYWHERE = ["--host", "0.0.0.0"];

async function newKey(url: string, role = "admin"): Promise<string> {
  const response = await fetch(`${url}/v1/keys`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ name: "test", role }),
  });
  expect(response.status).toBe(201);
  return ((await response.json()) as { key: string }).key;
}

/** Until the server has seen that there is a key. */
function asksForKeys(cli: Cli): Promise<string> {
  return cli.until(({ err }) => err.find((line) => line.includes('"keys_required"')));
}

async function statusOf({ url }: Serving, key?: string): Promise<number> {
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
  const { port } = new URL(url);
  return (await fetch(`http://127.0.0.1:${port}/v1/locks`, { headers })).status;
}

it("answers no web page of others while it asks for no key", async () => {
  const { url } = await serve("memory:");
  const start = (headers: Record<string, string>) =>
    fetch(`${url}/api/generator/start`, { method: "POST", headers });
  expect((await start({ origin: "https://page.example" })).status).toBe(403);
  expect((await start({ origin: url })).status).toBe(200);
});

it("takes limits, and names one that is wrong", async () => {
  const serving = await serve("memory:", ["--limits", "leases=1,ratePerSecond=none"]);
  const acquire = async (resource: string) => {
    const { status } = await fetch(`${serving.url}/v1/locks/acquire`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ resource, ownerId: "w" }),
    });
    return status;
  };
  expect([await acquire("a"), await acquire("b")]).toEqual([200, 429]);
  const wrong = ["serve", "--port", "0", "--store", "memory:", "--limits", "waiters=few"];
  const { code, stderr } = await leasehold(wrong);
  expect([code, stderr]).toEqual([64, expect.stringContaining("limits.waiters")]);
});

it("warns of a limit that has no effect", async () => {
  const { cli } = await serve("memory:", ["--limits", "ratePerSecond=5"]);
  const warning = await cli.until(({ err }) => err.find((line) => line.includes('"no_effect"')));
  expect(JSON.parse(warning)).toMatchObject({ level: 40, option: "--limits ratePerSecond" });
});

it("takes a limit of the connections of one address, and logs what it refuses", async () => {
  const serving = await serve("memory:", ["--max-connections-per-address", "1"]);
  const { port } = new URL(serving.url);
  const dial = () => {
    const socket = connect(Number(port), "127.0.0.1").on("error", () => {});
    onTestFinished(() => void socket.destroy());
    return socket;
  };
  await once(dial(), "connect");
  await once(dial().resume(), "close");
  const line = await serving.cli.until(({ err }) =>
    err.find((text) => text.includes('"connections_refused"')),
  );
  expect(JSON.parse(line)).toMatchObject({ level: 40, address: "127.0.0.1", open: 1 });
});

it("refuses to serve other machines without a key, and says what to do", async () => {
  const { code, stderr } = await leasehold([
    "serve",
    "--port",
    "0",
    "--store",
    "memory:",
    ...ANYWHERE,
  ]);
  expect(code).toBe(64);
  for (const remedy of ["leasehold keys create", "--host 127.0.0.1", "--insecure-no-keys"]) {
    expect(stderr).toContain(remedy);
  }
});

it("serves them all the same when the operator says so, and warns", async () => {
  const serving = await serve("memory:", [...ANYWHERE, "--insecure-no-keys"]);
  const warning = await serving.cli.until(({ err }) => err.find((line) => /no API key/.test(line)));
  expect(JSON.parse(warning)).toMatchObject({ level: 40, host: "0.0.0.0" });
  expect(await statusOf(serving)).toBe(200);
});

it("serves this machine without a key, says so, and asks for keys from the first one on", async () => {
  const serving = await serve("memory:");
  const { cli, url } = serving;
  expect(new URL(url).hostname).toBe("127.0.0.1");
  await cli.until(({ err }) => err.find((line) => line.includes("no API key: any program on")));
  expect(await statusOf(serving)).toBe(200);
  const key = await newKey(url);
  await asksForKeys(cli);
  expect([await statusOf(serving), await statusOf(serving, key)]).toEqual([401, 200]);

  // The command line takes the key from its environment or the URL, and prints it nowhere.
  const counts = (store: string, LEASEHOLD_KEY?: string) =>
    leasehold(["tasks", "--store", store, "--verbose"], {
      env: LEASEHOLD_KEY === undefined ? {} : { LEASEHOLD_KEY },
    });
  const wrong = `${key.slice(0, -4)}${key.endsWith("0000") ? "1111" : "0000"}`;
  const [none, right, inUrl, another] = await Promise.all([
    counts(url),
    counts(url, key),
    counts(url.replace("//", `//${key}@`)),
    counts(url, wrong),
  ]);
  expect([right.code, inUrl.code]).toEqual([0, 0]);
  for (const { code, stderr } of [none, another]) {
    expect(code).toBe(78);
    expect(stderr).toContain("UNAUTHENTICATED");
    expect(stderr).toContain("LEASEHOLD_KEY");
  }
  const printed = [none, right, inUrl, another].flatMap(({ stdout, stderr }) => [stdout, stderr]);
  const secrets = [key, wrong].map((text) => text.slice(-32));
  for (const text of [...printed, ...cli.err, ...cli.out]) {
    for (const secret of secrets) expect(text).not.toContain(secret);
  }
});

it("stays closed after a restart when the last key has ended, until the store gets another", async () => {
  const { directory, remove } = await freshPglite();
  onTestFinished(remove);
  const store = `pglite:${directory}`;
  const first = await serve(store);
  const key = await newKey(first.url);
  await asksForKeys(first.cli);
  const revoked = await fetch(`${first.url}/v1/keys/${key.split("_")[1]}?reason=test`, {
    method: "DELETE",
    headers: { authorization: `Bearer ${key}` },
  });
  expect(revoked.status).toBe(200);
  await first.cli.end("SIGTERM");
  const second = await serve(store);
  await second.cli.until(({ err }) => err.find((line) => line.includes('"no_valid_key"')));
  expect([await statusOf(second), await statusOf(second, key)]).toEqual([401, 401]);
  await second.cli.end("SIGTERM");
  const create = ["keys", "create", "--store", store, "--name", "me", "--role", "admin"];
  const recovered = (await leasehold(create)).stdout.trim();
  expect(await statusOf(await serve(store), recovered)).toBe(200);
});

it("answers no request without a key that a proxy forwards", async () => {
  const { url } = await serve("memory:");
  const create = (headers: Record<string, string>) =>
    fetch(`${url}/v1/keys`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ name: "test", role: "admin" }),
    });
  expect((await create({ "x-forwarded-for": "127.0.0.1" })).status).toBe(403);
  expect((await create({})).status).toBe(201);
});

it("requires keys from the start on demand, and prints a token that creates the first, once", async () => {
  const serving = await serve("memory:", [...ANYWHERE, "--require-keys"]);
  const token = await serving.cli.until(({ out }) => out.find((line) => line !== ""));
  expect(token).toMatch(/^lh_bootstrap_[0-9a-f]{32}$/);
  expect([await statusOf(serving), await statusOf(serving, token)]).toEqual([401, 403]);
  const { port } = new URL(serving.url);
  const create = () =>
    fetch(`http://127.0.0.1:${port}/v1/keys`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: JSON.stringify({ name: "me", role: "admin" }),
    });
  const made = await create();
  expect(made.status).toBe(201);
  const { key } = (await made.json()) as { key: string };
  expect(await statusOf(serving, key)).toBe(200);
  expect((await create()).status).toBe(401);
  // Logs go to other places than stdout.
  for (const line of serving.cli.err) expect(line).not.toContain(token.slice(-32));
});

it("serves other machines once a key exists, and only callers that send one", async () => {
  const { directory, remove } = await freshPglite();
  onTestFinished(remove);
  const store = `pglite:${directory}`;
  const first = await serve(store);
  const key = await newKey(first.url);
  await first.cli.end("SIGTERM");
  const serving = await serve(store, ANYWHERE);
  expect([await statusOf(serving), await statusOf(serving, key)]).toEqual([401, 200]);
  const health = new URL("/healthz", serving.url.replace("0.0.0.0", "127.0.0.1"));
  expect((await fetch(health)).status).toBe(200);
});
