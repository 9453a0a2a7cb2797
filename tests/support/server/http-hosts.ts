/** A server app in each host that docs/embedding.md names, and what becomes of each request there. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { getConnInfo } from "@hono/node-server/conninfo";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { REQUEST_ID_HEADER } from "../../../packages/leasehold/src/wire/index.js";
import {
  listen,
  nodeHandler,
  type ServerApp,
} from "../../../packages/leasehold-server/src/http/index.js";

export interface Host {
  readonly port: number;
  close(): Promise<unknown>;
}

const BODY_BYTES = 4 * 1024 * 1024;

export const HOSTS: Readonly<Record<string, (app: ServerApp) => Promise<Host>>> = {
  "listen()": (app) => listen({ app, port: 0 }),
  "Node's http": (app) => listening(createServer(nodeHandler(app)).listen(0, "127.0.0.1")),
  Express(app) {
    const parser = express.json({ strict: false, limit: BODY_BYTES });
    return listening(express().use(parser, nodeHandler(app)).listen(0, "127.0.0.1"));
  },
  async Fastify(app) {
    const host = fastify();
    const handle = nodeHandler(app);
    await host.register(async (scope) => {
      scope.all("/*", { bodyLimit: BODY_BYTES }, (request, reply) => {
        reply.hijack();
        handle(Object.assign(request.raw, { body: request.body }), reply.raw);
      });
    });
    await host.listen({ port: 0, host: "127.0.0.1" });
    return { port: portOf(host.server), close: () => host.close() };
  },
  Hono(app) {
    const host = new Hono().all("/*", (context) => {
      const remoteAddress = getConnInfo(context).remote.address;
      return app.fetch(context.req.raw, { remoteAddress });
    });
    const options = { port: 0, hostname: "127.0.0.1", overrideGlobalObjects: false };
    return listening(serve({ fetch: host.fetch, ...options }) as Server);
  },
};

async function listening(server: Server): Promise<Host> {
  if (!server.listening) await once(server, "listening");
  return {
    port: portOf(server),
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

interface Started {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly server: Server;
}

/** The requests that the servers of this process get, by the id that their clients chose. */
export class Requests {
  readonly #started = new Map<string, Started>();
  readonly #waiting = new Map<string, (started: Started) => void>();

  constructor() {
    subscribe(STARTED, this.#note);
  }

  /** When its head has been read. */
  started(id: string): Promise<Started> {
    const started = this.#started.get(id);
    if (started) return Promise.resolve(started);
    return new Promise((resolve) => this.#waiting.set(id, resolve));
  }

  /** When the server knows that its client has gone, or has sent the answer. */
  async closed(id: string): Promise<void> {
    const { response } = await this.started(id);
    if (!response.closed) await once(response, "close");
  }

  /** How many streams of events are open. */
  streams(): number {
    const all = [...this.#started.values()];
    return all.filter(({ request, response }) => {
      return request.url?.startsWith("/v1/events") && !response.closed;
    }).length;
  }

  /** How many connections the server of the last request has. */
  connections(): Promise<number> {
    const server = [...this.#started.values()].at(-1)?.server;
    return new Promise((resolve, reject) => {
      server?.getConnections((error, count) => (error ? reject(error) : resolve(count)));
    });
  }

  close(): void {
    unsubscribe(STARTED, this.#note);
  }

  readonly #note = (message: unknown): void => {
    const started = message as Started;
    const chosen = started.request.headers[REQUEST_ID_HEADER];
    const id = typeof chosen === "string" ? chosen : `request ${this.#started.size}`;
    this.#started.set(id, started);
    this.#waiting.get(id)?.(started);
  };
}
const STARTED = "http.server.request.start";

/** The app, whose requests are counted while it works on them. */
export class CountedApp {
  /** Requests without a response. */
  answering = 0;
  readonly app: ServerApp;
  #listeners = new Set<() => void>();

  constructor(app: ServerApp) {
    this.app = {
      ...app,
      fetch: async (request, connection) => {
        this.answering += 1;
        try {
          return await app.fetch(request, connection);
        } finally {
          this.answering -= 1;
          for (const listener of this.#listeners) listener();
        }
      },
    };
  }

  onAnswer(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
