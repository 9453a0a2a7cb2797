/**
 * Between the workers and a server: writes down what was said about tasks and what was answered, and
 * now and then loses an answer after the server has acted. It reads requests; a proxy of bytes, as
 * tcp-proxy.ts is, could not write them down.
 */
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import type { Random } from "leasehold";

/** What a holder said about its task, and what came of it. */
export interface Saying {
  readonly id: string;
  readonly operation: string;
  readonly token: number;
  /** failed: nothing was done, and said so; unknown: the answer is lost, or says that it may be. */
  readonly outcome: "accepted" | "repeated" | "refused" | "failed" | "unknown" | "invalid";
  /** Why it was refused. */
  readonly reason: string | null;
}

export interface Proxy {
  readonly url: string;
  readonly sayings: readonly Saying[];
  /** How many answers were lost on purpose, of any kind. */
  readonly dropped: number;
  close(): Promise<void>;
}

/** About one task, or a batch of them. */
const HOLDERS = /^\/api\/tasks\/(?:([0-9a-f-]{36})\/)?(heartbeat|complete|fail|return)$/;

export async function startProxy(port: number, random: Random, dropRatio: number): Promise<Proxy> {
  const sayings: Saying[] = [];
  let dropped = 0;
  const agent = new Agent({ keepAlive: true });

  const forward = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const { method, headers } = incoming;
    const path = incoming.url ?? "/";
    const body = await buffer(incoming);
    const answer = await new Promise<{ head: IncomingMessage; body: Buffer } | null>((resolve) => {
      const onward = request({ host: "127.0.0.1", port, method, path, headers, agent });
      // Who waits for a task and dies takes the wait along; anything else goes on without its sender.
      outgoing.once("close", () => {
        if (path === "/api/tasks/next") onward.destroy();
      });
      onward.once("error", () => resolve(null));
      onward.once("response", (head) => {
        buffer(head).then(
          (body) => resolve({ head, body }),
          () => resolve(null),
        );
      });
      onward.end(body);
    });
    const status = answer?.head.statusCode ?? null;
    const drop = method !== "GET" && status !== null && status < 300 && random.float() < dropRatio;
    if (drop) dropped += 1;
    const [, id, operation] = HOLDERS.exec(path) ?? [];
    if (operation !== undefined) {
      const said = JSON.parse(body.toString()) as Said | (Said & { id: string })[];
      const answers = answer && (JSON.parse(answer.body.toString()) as Answer | Answer[]);
      for (const [index, one] of (Array.isArray(said) ? said : [{ ...said, id: id! }]).entries()) {
        const came = cameOf(status, Array.isArray(answers) ? answers[index] : answers);
        sayings.push({ id: one.id, operation, token: one.fencingToken, ...came });
      }
    }
    if (!answer || drop) {
      outgoing.destroy();
      return;
    }
    outgoing.writeHead(answer.head.statusCode!, answer.head.headers);
    outgoing.end(answer.body);
  };

  const server = createServer({ keepAliveTimeout: 60_000 }, (incoming, outgoing) => {
    forward(incoming, outgoing).catch(() => outgoing.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sayings,
    get dropped() {
      return dropped;
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      agent.destroy();
      await closed;
    },
  };
}

interface Said {
  readonly fencingToken: number;
}
/** The answer about one task, or its outcome among those of a batch. */
interface Answer {
  readonly status?: string | number;
  readonly repeated?: boolean;
  readonly reason?: string;
  readonly applied?: string;
}

function cameOf(
  status: number | null,
  answer: Answer | null | undefined,
): Pick<Saying, "outcome" | "reason"> {
  const came = (outcome: Saying["outcome"]) => ({ outcome, reason: answer?.reason ?? null });
  if (status === null || !answer) return came("unknown");
  if (status === 503 || answer.applied === "no") return came("failed");
  if (status >= 500 || answer.applied === "maybe") return came("unknown");
  if (status === 409 || answer.status === "refused") return came("refused");
  if (status >= 300) return came("invalid");
  return came(answer.repeated ? "repeated" : "accepted");
}
