/**
 * Calls to the API server for the Lease objects of one Kubernetes namespace, over HTTP without a client
 * library. A request is sent once, except:
 *
 *   401 ──▶ rereads the credentials (the token was rotated) and sends the request again, on another connection
 *   a read whose idle connection the server just closed ──▶ sends it on another connection
 */
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { type Clock, type Env, type Timer, untilAborted } from "../../env/index.js";
import { ClosedError } from "../../lease/index.js";
import { type Access, type Cluster, closeIdle } from "./connection-access.js";
import {
  type Asked,
  connectionError,
  overdueError,
  type Refusal,
  refusalError,
  type Verb,
} from "./failures.js";
import type { LeaseObject } from "./records.js";

export interface Call {
  readonly verb: Verb;
  /** Name of the object; default: all objects. */
  readonly name?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: LeaseObject;
  /** By the monotonic clock. */
  readonly deadlineMs: number;
}

/** A response whose status the caller interprets: success, or a conflict of versions. */
export interface Answer extends Refusal {
  /** The server's wall clock, in whole seconds. */
  readonly wallMs: number | null;
}

/** An event of a watch, as the API server sends it. */
export interface ApiEvent {
  readonly type: string;
  readonly object: unknown;
}

/** A page of a list. */
export interface LeaseList {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly LeaseObject[];
}

const METHODS = { get: "GET", list: "GET", watch: "GET", create: "POST", update: "PUT" } as const;
/** The timeout of calls that set none. */
export const DEFAULT_BUDGET_MS = 5_000;

export class KubernetesApi {
  readonly #cluster: Cluster;
  readonly #env: Env;
  readonly #open = new Set<AbortController>();
  readonly #closing = new AbortController();

  constructor(
    cluster: Cluster,
    /** The Kubernetes namespace. */
    readonly namespace: string,
    env: Env,
  ) {
    this.#cluster = cluster;
    this.#env = env;
  }

  /** Aborts when the store is closed. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** @throws ClosedError */
  checkOpen(): void {
    if (this.closing.aborted) throw new ClosedError("the store");
  }

  /** Aborts all requests in flight. */
  close(): void {
    this.#closing.abort();
    for (const call of this.#open) call.abort();
    this.#cluster.close();
  }

  /**
   * @throws LeaseholdError for every failure; its `outcome` says whether the request took effect
   */
  async send(call: Call): Promise<Answer> {
    const asked = this.#asked(call.verb);
    const first = await this.#exchange(call, asked);
    const answer = first.status === 401 ? await this.#exchange(call, asked, first.access) : first;
    if (answer.status < 300 || isForCaller(call.verb, answer.status)) return answer;
    throw refusalError(answer, asked);
  }

  /**
   * Starts a watch.
   * @param signal ends it
   * @returns the events, until the server or the signal ends the stream, the connection breaks, or it
   *   is silent for `silenceMs`; null if the server no longer has the start version
   * @throws LeaseholdError as send()
   */
  async watch(
    query: Readonly<Record<string, string>>,
    silenceMs: number,
    signal: AbortSignal,
  ): Promise<AsyncIterable<ApiEvent> | null> {
    this.checkOpen();
    const asked = this.#asked("watch");
    const silence = new Silence(this.#env.clock, silenceMs, signal);
    try {
      const call = { verb: "watch", query } as const;
      let { response, access } = await this.#request(call, asked, silence.signal);
      if (response.statusCode === 401) {
        response.resume();
        ({ response } = await this.#request(call, asked, silence.signal, access));
      }
      if (response.statusCode === 200) {
        // A watch alone does not keep the process alive.
        response.socket.unref();
        return eventsOf(response, silence);
      }
      const answer = await answerOf(response, asked);
      silence.end();
      if (answer.status === 410) return null;
      throw refusalError(answer, asked);
    } catch (error) {
      silence.end();
      throw connectionError(error, true, asked);
    }
  }

  #asked(verb: Verb): Asked {
    return { verb, namespace: this.namespace, server: this.#cluster.server };
  }

  /** @param refused the access that the server rejected */
  async #exchange(
    call: Call,
    asked: Asked,
    refused?: Access,
  ): Promise<Answer & { access: Access }> {
    const { clock } = this.#env;
    this.checkOpen();
    const leftMs = Math.floor(call.deadlineMs - clock.monotonic());
    if (leftMs <= 0) throw overdueError(0, false, asked);
    const cut = new AbortController();
    let overdue = false;
    const timer = clock.timer(leftMs, () => {
      overdue = true;
      cut.abort();
    });
    this.#open.add(cut);
    const progress = { sent: false, reused: false };
    try {
      const sent = await this.#request(call, asked, cut.signal, refused, progress);
      return { ...(await answerOf(sent.response, asked)), access: sent.access };
    } catch (error) {
      if (overdue) throw overdueError(leftMs, progress.sent, asked);
      const known = connectionError(error, progress.sent, asked);
      const lostIdle = progress.reused && known.outcome === "none" && known.retryable;
      if (!lostIdle || this.closing.aborted) throw known;
      return await this.#exchange(call, asked, refused);
    } finally {
      timer.cancel();
      this.#open.delete(cut);
    }
  }

  /** The head of a response, and as whom it was asked for. */
  async #request(
    { verb, name, query, body }: Pick<Call, "verb" | "name" | "query" | "body">,
    asked: Asked,
    signal: AbortSignal,
    refused?: Access,
    progress = { sent: false, reused: false },
  ): Promise<{ readonly response: IncomingMessage; readonly access: Access }> {
    // A plugin may take longer than this call has.
    const access = await untilAborted(signal, this.#cluster.access(refused));
    const { headers, agent } = access;
    const collection = `/apis/coordination.k8s.io/v1/namespaces/${asked.namespace}/leases`;
    const path = name === undefined ? collection : `${collection}/${name}`;
    const parameters = new URLSearchParams(query).toString();
    const url = `${asked.server}${path}${parameters && `?${parameters}`}`;
    const secure = url.startsWith("https:");
    const payload =
      body && JSON.stringify({ apiVersion: "coordination.k8s.io/v1", kind: "Lease", ...body });
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const request = (secure ? httpsRequest : httpRequest)(url, {
        method: METHODS[verb],
        headers: {
          ...headers,
          accept: "application/json",
          "user-agent": "leasehold",
          ...(payload === undefined
            ? {}
            : { "content-type": "application/json", "content-length": Buffer.byteLength(payload) }),
        },
        agent,
        signal,
      });
      request.once("socket", (socket) => {
        progress.reused = request.reusedSocket;
        progress.sent = !socket.connecting;
        if (progress.sent) return;
        socket.once(secure ? "secureConnect" : "connect", () => {
          progress.sent = true;
        });
      });
      request.once("response", resolve);
      request.once("error", reject);
      request.end(payload);
    });
    if (saysOfServer(response.statusCode ?? 0)) {
      // The address may lead to another server by now, and this one keeps its connections.
      const { socket } = response;
      response.once("end", () => socket.destroy());
      closeIdle(agent);
    }
    return { response, access };
  }
}

/** Another server may do better: this one cannot serve, or does not know the token yet. */
function saysOfServer(status: number): boolean {
  return status >= 500 || status === 401;
}

/** Statuses about versions and names. They are results, not failures. */
function isForCaller(verb: Verb, status: number): boolean {
  if (status === 409) return verb === "create" || verb === "update";
  if (status === 404) return verb === "get" || verb === "update";
  return status === 410 && verb === "list";
}

/** Ends a stream after too much silence, or when its owner does. */
class Silence {
  readonly #cut = new AbortController();
  readonly #abort = () => this.end();
  #timer: Timer | undefined;

  constructor(
    readonly clock: Clock,
    readonly longestMs: number,
    readonly ends: AbortSignal,
  ) {
    ends.addEventListener("abort", this.#abort, { once: true });
    if (ends.aborted) this.end();
    else this.heard();
  }

  get signal(): AbortSignal {
    return this.#cut.signal;
  }

  heard(): void {
    this.#timer?.cancel();
    this.#timer = this.clock.timer(this.longestMs, this.#abort, { background: true });
  }

  end(): void {
    this.#timer?.cancel();
    this.ends.removeEventListener("abort", this.#abort);
    this.#cut.abort();
  }
}

/** Parses one JSON object per line. */
async function* eventsOf(
  response: IncomingMessage,
  silence: Silence,
): AsyncGenerator<ApiEvent, void, void> {
  let rest = "";
  response.setEncoding("utf8");
  try {
    for await (const chunk of response) {
      silence.heard();
      const lines = `${rest}${chunk}`.split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line !== "") yield JSON.parse(line) as ApiEvent;
    }
  } catch {
    // The stream broke. The watcher resumes from the last version it saw.
  } finally {
    silence.end();
  }
}

async function answerOf(response: IncomingMessage, asked: Asked): Promise<Answer> {
  response.setEncoding("utf8");
  let text = "";
  for await (const chunk of response) text += chunk;
  const status = response.statusCode ?? 0;
  const wallMs = Date.parse(response.headers.date ?? "");
  const answer = { status, body: bodyOf(text), wallMs: Number.isNaN(wallMs) ? null : wallMs };
  // A proxy sent this page. Its status is enough unless it reports success.
  if (answer.body === null && status < 300) throw refusalError(answer, asked);
  return answer;
}

function bodyOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
