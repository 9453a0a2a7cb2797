/** The guard in front of real servers. */
import {
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { afterEach, describe, expect, it } from "vitest";
import { fencing, memoryGuard } from "./index.js";

interface Site {
  readonly url: string;
  close(): Promise<void>;
}

async function site(server: Server): Promise<Site> {
  if (!server.listening) await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/tenants/t1/close`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** The work of a handler: it reports its start, and ends when the test lets it. */
type Work = () => Promise<string>;

const SERVERS: readonly [string, (work: Work) => Promise<Site>][] = [
  [
    "Node's http",
    (work) => {
      const { node } = fencing<IncomingMessage>({
        store: memoryGuard(),
        resource: ({ url }) => `billing:${url}`,
      });
      const handler = async (_: IncomingMessage, response: ServerResponse) => {
        response.end(await work());
      };
      return site(createServer(node(handler)).listen(0, "127.0.0.1"));
    },
  ],
  [
    "Express",
    (work) => {
      const guarded = fencing<express.Request>({
        store: memoryGuard(),
        resource: ({ params }) => `billing:${String(params["tenant"])}`,
      });
      const app = express();
      app.post("/tenants/:tenant/close", guarded.express, async (_, response) => {
        response.send(await work());
      });
      return site(app.listen(0, "127.0.0.1"));
    },
  ],
  [
    "Fastify",
    async (work) => {
      const guarded = fencing<{ params: unknown }>({
        store: memoryGuard(),
        resource: ({ params }) => `billing:${(params as { tenant: string }).tenant}`,
      });
      const app = fastify();
      app.post("/tenants/:tenant/close", { preHandler: guarded.fastify }, () => work());
      await app.listen({ port: 0, host: "127.0.0.1" });
      const { url } = await site(app.server);
      return { url, close: () => app.close() };
    },
  ],
  [
    "Hono",
    (work) => {
      const guarded = fencing<{ req: { param(name: string): string | undefined } }>({
        store: memoryGuard(),
        resource: ({ req }) => `billing:${req.param("tenant")}`,
      });
      const app = new Hono();
      app.post("/tenants/:tenant/close", guarded.hono, async (context) =>
        context.text(await work()),
      );
      return site(serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }) as Server);
    },
  ],
];

let open: Site | undefined;
afterEach(() => open?.close());

describe.each(SERVERS)("fencing in %s", (_, start) => {
  const post = async (token?: number | string) => {
    const headers: Record<string, string> =
      token === undefined ? {} : { "Fencing-Token": String(token) };
    const response = await fetch(open?.url ?? "", { method: "POST", headers });
    return {
      status: response.status,
      type: response.headers.get("content-type"),
      text: await response.text(),
    };
  };

  it("answers 428 without a token, 400 to nonsense, 412 to an old one", async () => {
    let worked = 0;
    open = await start(async () => `done ${(worked += 1)}`);
    const missing = await post();
    expect(missing).toMatchObject({ status: 428, type: expect.stringContaining("problem+json") });
    expect(JSON.parse(missing.text)).toMatchObject({ type: "TOKEN_REQUIRED", status: 428 });
    for (const nonsense of ["x", "1.5", "0", "-1", "99999999999999999"]) {
      expect((await post(nonsense)).status).toBe(400);
    }
    expect(await post(10)).toMatchObject({ status: 200, text: "done 1" });
    expect(await post(10)).toMatchObject({ status: 200, text: "done 2" });
    expect(await post(11)).toMatchObject({ status: 200, text: "done 3" });
    const stale = await post(10);
    expect(stale).toMatchObject({ status: 412, type: expect.stringContaining("problem+json") });
    expect(JSON.parse(stale.text)).toMatchObject({ type: "STALE_TOKEN", token: 10, lastToken: 11 });
    expect(worked).toBe(3);
  });

  it("lets a newer holder in when the older one's answer is done, not before", async () => {
    const begun: string[] = [];
    const gates: (() => void)[] = [];
    open = await start(async () => {
      begun.push("work");
      await new Promise<void>((resolve) => gates.push(resolve));
      return "done";
    });
    const older = post(10);
    await expect.poll(() => begun.length).toBe(1);
    const newer = post(11);
    const late = older.then(() => post(10));
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(begun.length).toBe(1);
    gates[0]?.();
    expect((await older).status).toBe(200);
    await expect.poll(() => begun.length).toBe(2);
    gates[1]?.();
    expect((await newer).status).toBe(200);
    expect((await late).status).toBe(412);
  });

  it("is left by a client that disconnects while it waits", async () => {
    const gates: (() => void)[] = [];
    open = await start(async () => {
      await new Promise<void>((resolve) => gates.push(resolve));
      return "done";
    });
    const older = post(10);
    await expect.poll(() => gates.length).toBe(1);
    const waiting = request(open.url, { method: "POST", headers: { "Fencing-Token": "11" } });
    const gone = new Promise((resolve) => waiting.once("error", resolve));
    const connected = new Promise((resolve) => waiting.once("finish", resolve));
    waiting.end();
    await connected;
    // Its headers have been read once a later request of the same process has been answered.
    expect((await post()).status).toBe(428);
    waiting.destroy();
    await gone;
    expect((await post()).status).toBe(428);
    gates[0]?.();
    expect((await older).status).toBe(200);
    const newest = post(12);
    // Hono works for a client that has gone; the others do not.
    const opened = setInterval(() => gates.forEach((open) => open()), 20);
    expect((await newest).status).toBe(200);
    clearInterval(opened);
  });
});

it("refuses options that cannot work", () => {
  expect(() => fencing({ store: {} as never, resource: () => "r" })).toThrow(
    /store must be a guard/,
  );
  expect(() => fencing({ store: memoryGuard(), resource: "r" as never })).toThrow(
    /resource must be/,
  );
});
