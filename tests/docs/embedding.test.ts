/** docs/embedding.md as it stands: its code is written to files, run, and used by real clients. */
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterEach, expect, it } from "vitest";
import { createApiKey } from "../../packages/leasehold/src/control/index.js";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import type { Stores } from "../../packages/leasehold/src/stores/source.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import type { ServerApp } from "../../packages/leasehold-server/src/http/index.js";
import { checkBuild } from "../support/processes/cli.js";
import { countClaims, exerciseGuest, sender } from "../support/server/guest.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const text = await readFile(join(root, "docs/embedding.md"), "utf8");
const blocks = new Map(
  [...text.matchAll(/^```js\n\/\/ (\S+)\n([\s\S]*?)^```$/gm)].map(([, name = "", code = ""]) => [
    name,
    code,
  ]),
);
const PACKAGES = [
  "leasehold",
  "leasehold-server",
  "express",
  "fastify",
  "hono",
  "@hono/node-server",
];

process.env.PORT = "0";

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

interface AppModule {
  readonly app: ServerApp;
  readonly stores: Stores;
}

/** All blocks in a project of their own; the exports of those that are named, and the app's. */
async function load<Exports>(...names: string[]): Promise<Exports & AppModule> {
  checkBuild();
  const folder = await mkdtemp(join(tmpdir(), "leasehold-embedding-"));
  ends.push(() => rm(folder, { recursive: true }));
  for (const used of PACKAGES) {
    const link = join(folder, "node_modules", used);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(root, "node_modules", used), link);
  }
  // What lies in node_modules is loaded by node itself, as it would be at home.
  const home = join(folder, "node_modules", "host");
  await mkdir(home);
  await writeFile(join(home, "package.json"), JSON.stringify({ type: "module" }));
  for (const [file, code] of blocks) await writeFile(join(home, file), code);
  const module = async (file: string) =>
    (await import(pathToFileURL(join(home, file)).href)) as object;
  const { app, stores } = (await module("app.js")) as AppModule;
  ends.push(async () => {
    await app.close();
    await stores.close();
  });
  const modules = await Promise.all(names.map(module));
  return Object.assign({ app, stores }, ...modules) as Exports & AppModule;
}

async function listening(server: Server): Promise<string> {
  if (!server.listening) await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  return `http://127.0.0.1:${port}`;
}

function endLater(server: Server): void {
  ends.push(
    () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  );
}

it.each(["node.js", "express.js", "fastify.js", "hono.js"])(
  "serves below /leasehold of %s",
  async (name) => {
    const { server, stores } = await load<{ server: Server }>(name);
    endLater(server);
    const origin = await listening(server);
    expect(await (await fetch(origin)).text()).toBe("hello");
    await exerciseGuest({ url: `${origin}/leasehold`, server, stores });
    const document = await (await fetch(`${origin}/leasehold/openapi.json`)).json();
    expect(document).toMatchObject({ servers: [{ url: "/leasehold" }] });
  },
);

type Route = Record<string, (request: Request) => Promise<Response>>;

it("serves as a route that is given the whole URL", async () => {
  const { stores, ...route } = await load<Route>("route.js");
  const server = routeServer(route);
  endLater(server.listen(0, "127.0.0.1"));
  const url = `${await listening(server)}/leasehold`;
  // The route does not learn where a request is from.
  const refused = await fetch(`${url}/v1/leases`);
  expect([refused.status, await refused.json()]).toMatchObject([403, { code: "FORBIDDEN" }]);
  if (!stores.control) throw new Error("memory keeps keys");
  const order = {
    namespace: "default",
    name: "n",
    role: "admin",
    prefixes: [],
    lifetimeMs: null,
  } as const;
  const by = { actor: "test", reason: null };
  const { text: key } = await createApiKey(stores.control, systemEnv.random, order, by);
  await exerciseGuest({ url, server, stores, key });
});

/** A server that hands requests to the exports of a route, as Next.js does. */
function routeServer(route: Route): Server {
  return createServer(async (incoming, outgoing) => {
    const { method = "GET", headers, url } = incoming;
    const gone = new AbortController();
    outgoing.once("close", () => gone.abort());
    const init = { method, headers: headers as Record<string, string>, signal: gone.signal };
    const body = method === "GET" ? {} : { body: Readable.toWeb(incoming), duplex: "half" };
    const request = new Request(`http://${headers.host}${url}`, {
      ...init,
      ...body,
    } as RequestInit);
    const answer = await route[method]?.(request);
    outgoing.writeHead(answer?.status ?? 405, Object.fromEntries(answer?.headers ?? []));
    if (!answer?.body) outgoing.end();
    // Rejects when the client disconnects, which ends the answer too.
    else await pipeline(answer.body, outgoing).catch(() => {});
  });
}

it("closes: ends what waits, refuses what comes later, lets go of the server", async () => {
  type Exports = { server: Server; close: () => Promise<void> };
  const { app, close, server, stores } = await load<Exports>("express.js", "close.js");
  endLater(server);
  const url = `${await listening(server)}/leasehold`;
  const claims = countClaims(stores);
  const waiting = sender(url)("POST", "/api/tasks/next", { processor: "p", waitMs: 30_000 });
  await until(expect, "the claim waits", () => claims() > 0);
  await close();
  expect((await waiting).status).toBe(204);
  expect(server.listening).toBe(false);
  const late = await app.fetch(new Request("http://localhost/leasehold/api/tasks/counts"));
  expect([late.status, await late.json()]).toMatchObject([503, { code: "CLOSING" }]);
});
