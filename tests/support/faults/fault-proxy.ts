/**
 * Between a client and a server: does to each request what a test has said, and writes down what went
 * by. What is not said passes. Its faults are those of whole requests, of which connections carry many:
 * refused, delivered twice in turn. What befalls connections and bytes is done by tcp-proxy.ts.
 */
import { once } from "node:events";
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

export interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface Exchange {
  /** To the server, as often as it is called; rejects when there is no answer. */
  forward(): Promise<Answer>;
  /** The client gets this answer. */
  answer(answer: Answer): void;
  /** The client's connection is cut, without an answer. */
  cut(): void;
}
export type Fault = (exchange: Exchange) => Promise<void> | void;

/** The server acts, but its answer is lost. */
export const lost: Fault = async ({ forward, cut }) => {
  await forward();
  cut();
};
/** The network delivers it twice, one after the other; the second answer arrives. */
export const twice: Fault = async ({ forward, answer }) => {
  await forward();
  answer(await forward());
};
/** The network delivers it twice at the same time; the answer that comes last arrives. */
export const atOnce: Fault = async ({ forward, answer }) => {
  let last: Answer | undefined;
  const deliver = async () => {
    last = await forward();
  };
  await Promise.all([deliver(), deliver()]);
  if (last) answer(last);
};
/** It does not reach the server. */
export function refused(status: number, headers: Answer["headers"] = {}): Fault {
  return ({ answer }) => answer({ status, headers, body: "" });
}

export interface Seen {
  readonly path: string;
  readonly budgetMs: number | null;
  readonly body: string;
  readonly lastEventId: string | null;
}

export interface FaultProxy {
  readonly url: string;
  /** Every request, in order. */
  readonly seen: readonly Seen[];
  /** What becomes of the next requests, one each; streams of events are not counted. */
  next(...faults: Fault[]): void;
  /** Breaks off the streams of events that are open; how many. */
  cutStreams(): number;
  close(): Promise<void>;
}

export async function openFaultProxy(port: number): Promise<FaultProxy> {
  const seen: Seen[] = [];
  const faults: Fault[] = [];
  const streams = new Set<ServerResponse>();
  const agent = new Agent({ keepAlive: true });

  const send = ({ method, url, headers }: IncomingMessage) =>
    request({ host: "127.0.0.1", port, agent, method, path: url, headers });

  const exchangeOf = (
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    body: Buffer,
  ): Exchange => ({
    forward: () =>
      new Promise((resolve, reject) => {
        const onward = send(incoming);
        onward.on("error", reject);
        onward.on("response", (answer) => {
          const { statusCode = 0, headers } = answer;
          buffer(answer).then((bytes) => {
            const type = headers["content-type"];
            resolve({
              status: statusCode,
              ...(type === undefined ? {} : { headers: { "content-type": type } }),
              body: bytes.toString(),
            });
          }, reject);
        });
        onward.end(body);
      }),
    answer: ({ status, headers, body: text }) => outgoing.writeHead(status, headers).end(text),
    cut: () => outgoing.destroy(),
  });

  const stream = (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const onward = send(incoming);
    streams.add(outgoing);
    outgoing.on("close", () => {
      streams.delete(outgoing);
      onward.destroy();
    });
    onward.on("error", () => outgoing.destroy());
    onward.on("response", (answer) => {
      outgoing.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(outgoing);
      answer.on("error", () => outgoing.destroy());
    });
    onward.end();
  };

  const server = createServer(async (incoming, outgoing) => {
    const { headers, method, url = "" } = incoming;
    // A client whose connection opens slowly asks whether this is HTTP at all.
    if (method === "OPTIONS") return void outgoing.writeHead(204).end();
    const body = await buffer(incoming);
    const budget = headers["leasehold-budget-ms"];
    seen.push({
      path: url,
      budgetMs: budget === undefined ? null : Number(budget),
      body: body.toString(),
      lastEventId: (headers["last-event-id"] as string | undefined) ?? null,
    });
    if (url.startsWith("/v1/events")) return stream(incoming, outgoing);
    const exchange = exchangeOf(incoming, outgoing, body);
    const pass: Fault = async ({ forward, answer }) => answer(await forward());
    try {
      await (faults.shift() ?? pass)(exchange);
    } catch {
      exchange.cut();
    }
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    next: (...more) => void faults.push(...more),
    cutStreams: () => {
      const open = [...streams];
      for (const outgoing of open) outgoing.destroy();
      return open.length;
    },
    async close() {
      const closed = once(server.close(), "close");
      server.closeAllConnections();
      agent.destroy();
      await closed;
    },
  };
}
