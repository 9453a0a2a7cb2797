/** What commands say of a server that answers, and refuses. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { afterEach, beforeAll, expect, it, onTestFinished } from "vitest";
import { Cli, checkBuild, endAll, leasehold, serve } from "../support/processes/cli.js";

const HANDLERS = fileURLToPath(new URL("../support/processes/cli-handlers.js", import.meta.url));

beforeAll(() => checkBuild());
afterEach(() => endAll());

/** A server's log: its messages. */
const messages = ({ err }: { err: readonly string[] }) =>
  err.map((line) => (JSON.parse(line) as { msg: string }).msg);

it("says what a server has answered, instead of that there is no connection", async () => {
  const detail = "this address may make at most 10 requests a second";
  const problem = { code: "TOO_MANY_REQUESTS", status: 429, title: "no", detail };
  const server = createServer((_, response) => {
    response.writeHead(429, { "content-type": "application/problem+json", "retry-after": "1" });
    response.end(JSON.stringify(problem));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const expected = `leasehold: no access to ${url} yet: the server refused, by a limit: ${detail}`;
  for (const args of [["ls"], ["tasks"], ["run", "r", "--", "true"]]) {
    const cli = new Cli([args[0] ?? "", "--store", url, ...args.slice(1)]);
    const said = await cli.until(({ err }) => err[0]);
    expect(said).toContain(expected);
    expect(said).toContain("; retrying until ");
  }
});

it("ends generate with 64 in a namespace that the server does not serve", async () => {
  const { url } = await serve();
  const { code, stderr } = await leasehold(["generate", "run", "--store", url, "--namespace", "b"]);
  expect([code, stderr]).toEqual([64, expect.stringContaining('namespace must be "default"')]);
});

it("ends a worker with 78 when its key is revoked", async () => {
  const { url } = await serve("memory:keys", ["--limits", "waiters=10"]);
  const ask = async (method: string, path: string, key?: string, body?: object) => {
    const authorization = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { "content-type": "application/json", ...authorization },
      ...(body && { body: JSON.stringify(body) }),
    });
    return (await response.json()) as { key: string; id: string };
  };
  const create = (role: string, key?: string) =>
    ask("POST", "/v1/keys", key, {
      name: role,
      role,
      reason: "test",
      ...(role === "holder" && { prefixes: [""] }),
    });
  const admin = await create("admin");
  const own = await create("holder", admin.key);
  const worker = new Cli(["worker", "--handlers", HANDLERS, "--store", url], {
    env: { LEASEHOLD_KEY: own.key },
  });
  await worker.until((cli) => messages(cli).includes("working"));
  await ask("DELETE", `/v1/keys/${own.key.split("_")[1]}?reason=test`, admin.key);
  const { code, stderr } = await worker.ended;
  expect([code, stderr]).toEqual([78, expect.stringContaining("UNAUTHENTICATED")]);
});

it("has a worker log once that its server has gone, and once that it answers again", async () => {
  const first = await serve("memory:gone");
  const port = new URL(first.url).port;
  const worker = new Cli(["worker", "--handlers", HANDLERS, "--store", first.url]);
  await worker.until((cli) => messages(cli).includes("working"));
  await first.cli.end("SIGKILL");
  const gone = (cli: Pick<Cli, "err">) =>
    messages(cli).filter((message) => message.startsWith("the store has not answered since "));
  await worker.until((cli) => gone(cli).length > 0);
  const claims = () => messages(worker).filter((message) => message === "could not claim tasks");
  const before = claims().length;
  new Cli(["serve", "--port", port, "--store", "memory:gone"]);
  await worker.until((cli) => messages(cli).includes("the store answers again"));
  expect([gone(worker).length, claims().length]).toEqual([1, before]);
  expect((await worker.end("SIGTERM")).code).toBe(0);
});
