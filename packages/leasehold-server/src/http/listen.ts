/** Serves the app with an HTTP server of its own. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Server as TlsServer } from "node:https";
import type { Socket } from "node:net";
import { type Clock, InvalidOptionError, type Logger } from "leasehold";
import { blockedPort, guardedLogger, silentLogger, systemClock } from "leasehold/internal";
import type { ServerApp } from "./app-options.js";
import { limitConnections, limitUnread } from "./connections.js";
import { requestListener } from "./node.js";
import { oneByOne } from "./one-by-one.js";
import { ProblemError } from "./problems.js";
import { rawAnswer } from "./raw-answer.js";
import { changeTls, createTlsServer, Handshakes } from "./tls.js";
import type { ServerTls } from "./tls-options.js";

/** Options of `listen`. */
export interface ListenOptions {
  /** Closed together with the server. */
  readonly app: ServerApp;
  /** Default `127.0.0.1`: serving other machines must be a choice. */
  readonly host?: string;
  /** 0 chooses a free port. Those to which fetch never connects, such as 6000, are refused. */
  readonly port: number;
  /** Maximum number of connections; further ones are refused. Default 10,000. */
  readonly maxConnections?: number;
  /**
   * Maximum number of connections of one remote address, or of one IPv6 network of 64 bits; further ones are
   * refused. Default 80 % of `maxConnections`, so that a proxy, whose clients have one address, can be used.
   */
  readonly maxConnectionsPerAddress?: number;
  /** How long `close()` waits for requests before it cuts them off, in milliseconds. Default 5,000. */
  readonly graceMs?: number;
  /** Logs refused connections, and those that cannot be accepted, as with too many open files. Default: silent. */
  readonly logger?: Logger;
  /** Default: the machine's. */
  readonly clock?: Clock;
  /** Serves https, from TLS 1.2 on. Default: plain HTTP. */
  readonly tls?: ServerTls | undefined;
  /**
   * How long browsers shall use https alone for this host, on all of its ports: `Strict-Transport-Security`. 0 sends no such
   * header. Default: a year with `tls`, otherwise none. Never sent for the host `localhost`.
   */
  readonly hstsMaxAgeMs?: number | undefined;
}

/** A server that listens: where it does, and how it ends. */
export interface Listening {
  readonly host: string;
  readonly port: number;
  /** `http://host:port`, with `tls` `https://host:port`. */
  readonly url: string;
  /**
   * Prepares for {@link Listening.close}: /readyz answers 503 from now on, and each connection ends with its next
   * response, so that a client connects again, elsewhere behind a load balancer. New ones are accepted, all is served.
   * @example
   * ```ts
   * import { setTimeout as delay } from "node:timers/promises";
   * import { openStores } from "leasehold";
   * import { createApp, listen } from "leasehold-server";
   *
   * const stores = await openStores("memory:");
   * const server = await listen({ app: createApp({ ...stores, version: "1.0.0" }), port: 0 });
   * process.once("SIGTERM", async () => {
   *   server.drain();
   *   await delay(10_000);
   *   await server.close();
   *   await stores.close();
   * });
   * process.kill(process.pid, "SIGTERM");
   * ```
   */
  drain(): void;
  /**
   * Uses other certificates for connections from now on; those that exist go on.
   * @throws INVALID_OPTION if they cannot be used, or without `tls`: then nothing changes
   * @example
   * ```ts
   * import { readFileSync, watch } from "node:fs";
   * import { openStores } from "leasehold";
   * import { createApp, listen } from "leasehold-server";
   *
   * const read = () => ({
   *   cert: readFileSync("/etc/leasehold/tls.crt", "utf8"),
   *   key: readFileSync("/etc/leasehold/tls.key", "utf8"),
   * });
   * const stores = await openStores("memory:");
   * const app = createApp({ ...stores, version: "1.0.0" });
   * const server = await listen({ app, port: 0, tls: read() });
   * watch("/etc/leasehold", () => server.changeTls(read()));
   * ```
   */
  changeTls(tls: ServerTls): void;
  /** Stops accepting, ends the waits, waits `graceMs` for other requests, then cuts them off. */
  close(): Promise<void>;
}

/** For a request's head. No client needs longer, and a slow sender would occupy the connection. */
const HEADERS_TIMEOUT_MS = 10_000;
/** For a whole request to arrive. */
const REQUEST_TIMEOUT_MS = 60_000;
/** Longer than the idle timeout of common load balancers (60 s), so that they close first. */
const KEEP_ALIVE_MS = 65_000;
/** Of a connection whose requests had no caller so far, as those of health checks: anyone can open them. */
const UNAUTHENTICATED_KEEP_ALIVE_MS = 5_000;
const TIMEOUTS = {
  headersTimeout: HEADERS_TIMEOUT_MS,
  requestTimeout: REQUEST_TIMEOUT_MS,
  keepAliveTimeout: KEEP_ALIVE_MS,
  connectionsCheckingInterval: 2_000,
};
/** The rest is for other addresses. */
const SHARE_OF_ADDRESS = 0.8;
/** On a new connection a request may be on its way: it gets 503 rather than a cut connection. */
const LINGER_MS = 100;
/** What preload lists and scanners ask for at least. */
const HSTS_MS = 365 * 24 * 3_600_000;

/**
 * Serves an app with an HTTP server of its own.
 * @returns when the server accepts connections
 * @throws INVALID_OPTION for a port to which fetch never connects, such as 6000; node's own error (EADDRINUSE, EACCES)
 *   when the address cannot be used
 * @example
 * ```ts
 * import { openStores } from "leasehold";
 * import { createApp, listen } from "leasehold-server";
 *
 * const stores = await openStores("memory:");
 * const app = createApp({ ...stores, version: "1.0.0" });
 * const server = await listen({ app, port: 0 });
 * console.log(server.url);
 * await server.close();
 * await stores.close();
 * ```
 */
export async function listen(options: ListenOptions): Promise<Listening> {
  const { app, host = "127.0.0.1", graceMs = 5_000, tls } = options;
  const blocked = blockedPort(options.port);
  if (blocked !== undefined) throw new InvalidOptionError("port", `is not for servers: ${blocked}`);
  const { clock = systemClock } = options;
  const logger = guardedLogger(options.logger ?? silentLogger);
  const tlsServer = tls && createTlsServer(tls, TIMEOUTS);
  const server: Server = tlsServer ?? createServer(TIMEOUTS);
  const { hstsMaxAgeMs = tls ? HSTS_MS : 0 } = options;
  const hsts = hstsMaxAgeMs > 0 ? `max-age=${Math.floor(hstsMaxAgeMs / 1_000)}` : undefined;
  const { maxConnections: most = 10_000 } = options;
  const { maxConnectionsPerAddress: mostPerAddress = Math.ceil(most * SHARE_OF_ADDRESS) } = options;
  const stopLogging = limitConnections(server, { most, mostPerAddress }, { clock, logger });
  const handshakes = tlsServer && new Handshakes(tlsServer, { clock, logger });
  let draining = false;
  let closing = false;
  // Node's closeIdleConnections() skips connections that have not received a request yet.
  const idle = new Set<Socket>();
  // By connection: a pipelined response does not emit `close` when its connection is cut.
  const answering = new Map<Socket, Set<ServerResponse>>();
  server.on(tls ? "secureConnection" : "connection", (socket: Socket) => {
    idle.add(socket);
    answering.set(socket, new Set());
    socket.once("close", () => {
      idle.delete(socket);
      answering.delete(socket);
    });
  });
  const authenticated = new WeakSet<Socket>();
  const answered = new WeakSet<ServerResponse>();
  /** Those whose client waits for "100 Continue" before it sends the body. */
  const awaited = new WeakSet<ServerResponse>();
  const listener = requestListener(app, {
    overrideGlobalObjects: true,
    onBody(response) {
      const outgoing = response as ServerResponse;
      if (!awaited.delete(outgoing)) return;
      outgoing.writeContinue();
      outgoing.shouldKeepAlive = !draining;
    },
    onAnswer(response, hadCaller) {
      const outgoing = response as ServerResponse;
      answered.add(outgoing);
      limitUnread(outgoing.req.socket);
      if (!hadCaller) return;
      // A pipelined response has no socket of its own yet.
      authenticated.add(outgoing.req.socket);
      if (!outgoing.headersSent) outgoing.removeHeader("keep-alive");
    },
  });
  const handle = oneByOne((incoming, outgoing) => listener(incoming, outgoing));
  const serve = (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const { socket } = incoming;
    // Node parses on after a connection has been cut off.
    if (socket.destroyed) return;
    idle.delete(socket);
    answering.get(socket)?.add(outgoing);
    if (draining) outgoing.shouldKeepAlive = false;
    if (hsts && !isLocalhost(incoming)) outgoing.setHeader("strict-transport-security", hsts);
    if (outgoing.shouldKeepAlive && !authenticated.has(socket)) {
      outgoing.setHeader("keep-alive", `timeout=${UNAUTHENTICATED_KEEP_ALIVE_MS / 1_000}`);
    }
    outgoing.once("close", () => {
      const others = answering.get(socket);
      others?.delete(outgoing);
      if (closing) socket.destroySoon();
      else if (!socket.destroyed) idle.add(socket);
      // Node has set its timeout before, and resets this one at the next request.
      if (others?.size === 0 && !authenticated.has(socket)) {
        socket.setTimeout(UNAUTHENTICATED_KEEP_ALIVE_MS);
      }
      // A pipelined request may wait for longer than an answer may be unread.
      const [next] = others ?? [];
      if (next && !answered.has(next)) socket.setTimeout(0);
    });
    handle(incoming, outgoing);
  };
  server.on("request", serve);
  // By default, Node asks for the body at once. A client without a valid key is answered before that.
  server.on("checkContinue", (incoming, outgoing) => {
    awaited.add(outgoing);
    // Whether the body follows a final answer is the client's choice, so the next request would have no known begin.
    outgoing.shouldKeepAlive = false;
    serve(incoming, outgoing);
  });

  // Node would close the connection without an answer.
  server.on("connect", (_, socket: Socket) => {
    // An answer would overtake those to the requests before it.
    if (answering.get(socket)?.size === 0) socket.end(noTunnels());
    else socket.destroy();
  });

  await once(server.listen(options.port, host), "listening");
  server.on("error", (err) => logger.error({ err }, "could not accept a connection"));
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : options.port;

  const drain = () => {
    draining = true;
    app.drain();
    // Connections end with their current responses.
    for (const outgoing of [...answering.values()].flatMap((set) => [...set])) {
      outgoing.shouldKeepAlive = false;
    }
  };
  const close = async () => {
    closing = true;
    drain();
    const lingering = clock.timer(LINGER_MS, () => {
      for (const socket of idle) socket.destroy();
      handshakes?.closeAll();
    });
    const overdue = clock.timer(graceMs, () => server.closeAllConnections());
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    await Promise.all([app.close(), closed]);
    lingering.cancel();
    overdue.cancel();
    stopLogging();
    handshakes?.stopLogging();
  };
  let closed: Promise<void> | undefined;
  return {
    host,
    port,
    url: `${tls ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${port}`,
    drain,
    changeTls: (other) => changeTls(withTls(tlsServer), other),
    close: () => {
      closed ??= close();
      return closed;
    },
  };
}

/** The answer to CONNECT, which no route knows: after it, Node leaves the connection to its listener. */
function noTunnels(): string {
  const detail = "CONNECT is not allowed here: this server is no proxy";
  return rawAnswer(new ProblemError("METHOD_NOT_ALLOWED", detail, { headers: { allow: "" } }));
}

/** Browsers would then refuse plain HTTP of every other program on a developer's machine. */
function isLocalhost({ headers }: IncomingMessage): boolean {
  return /^localhost(:\d+)?$/i.test(headers.host ?? "");
}

function withTls(server: TlsServer | undefined): TlsServer {
  if (server) return server;
  throw new InvalidOptionError("tls", "must be given to listen() first: this server has none");
}
