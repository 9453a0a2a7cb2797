/** A handler behind the fencing guard, in each kind of server. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { fencing, type Guard, memoryGuard } from "../../../packages/leasehold/src/fence/index.js";

export interface Site {
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
export type Work = () => Promise<string>;

export const FENCED_SERVERS: readonly [string, (work: Work, store?: Guard) => Promise<Site>][] = [
  [
    "Node's http",
    (work, store = memoryGuard()) => {
      const { node } = fencing<IncomingMessage>({
        store,
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
    (work, store = memoryGuard()) => {
      const guarded = fencing<express.Request>({
        store,
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
    async (work, store = memoryGuard()) => {
      const guarded = fencing<{ params: unknown }>({
        store,
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
    (work, store = memoryGuard()) => {
      const guarded = fencing<{ req: { param(name: string): string | undefined } }>({
        store,
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
