/**
 * TLS of the server itself.
 *
 *   connection ──▶ handshake ─┬─ a certificate that no authority of ours has signed ──▶ cut off
 *                             │    (without authorities, certificates of clients do not count)
 *                             ├─ plain HTTP ──▶ 400, which says that this port needs https
 *                             ├─ nothing for 10 s ──▶ cut off
 *                             └─ done ──▶ requests, as without TLS
 *
 * The handshake does not demand a certificate, because health checks have none: the app refuses requests without one.
 */
import type { ServerOptions } from "node:http";
import { createServer, type Server } from "node:https";
import type { Socket } from "node:net";
import { createSecureContext, type TLSSocket } from "node:tls";
import { type Clock, InvalidOptionError, type Logger } from "leasehold";
import { damagedCertificate } from "leasehold/internal";
import { ProblemError } from "./problems.js";
import { rawAnswer } from "./raw-answer.js";
import { Sampler } from "./sampler.js";
import type { ServerTls } from "./tls-options.js";

const HANDSHAKE_TIMEOUT_MS = 10_000;
/** So that a client which sends plain HTTP can read the answer. */
const LINGER_MS = 1_000;
const LOG_EVERY_MS = 10_000;

const PLAIN = new ProblemError(
  "MALFORMED_REQUEST",
  "this port needs TLS, and the request came without: use https://",
);

/**
 * `SSL_OP_NO_RENEGOTIATION` of OpenSSL. A client of TLS 1.2 could otherwise present another certificate in the middle of a
 * connection, and handshakes of which the server bears most of the cost.
 */
const NO_RENEGOTIATION = 2 ** 30;

function contextOf({ cert, key, clientCa }: ServerTls) {
  const secureOptions = NO_RENEGOTIATION;
  const minVersion = "TLSv1.2" as const;
  // Without authorities of its own, Node would accept clients' certificates of public ones.
  return { cert, key, minVersion, secureOptions, ca: clientCa ?? [] };
}

/** The servers that verify certificates of clients, because their pair names authorities. */
const verifying = new WeakSet<Server>();

function noteAuthorities(server: Server, { clientCa }: ServerTls): void {
  if (clientCa === undefined) verifying.delete(server);
  else verifying.add(server);
}

/** @throws InvalidOptionError if they cannot be used together */
function checkTls(tls: ServerTls): void {
  // OpenSSL takes an empty text for none, and would refuse each handshake later.
  if (!tls.cert.includes("CERTIFICATE-----")) {
    throw new InvalidOptionError("tls.cert", "must have a certificate in PEM");
  }
  if (!tls.key.includes("PRIVATE KEY-----")) {
    throw new InvalidOptionError("tls.key", "must have a private key in PEM");
  }
  checkWhole("tls.cert", tls.cert);
  if (/ENCRYPTED/.test(tls.key)) {
    throw new InvalidOptionError("tls.key", "has a passphrase: remove it with openssl pkey");
  }
  try {
    createSecureContext(contextOf(tls));
  } catch (error) {
    const { message } = error as Error;
    const isOther = message.includes("key values mismatch");
    const problem = isOther
      ? "the key is not that of the certificate, which must come first in cert"
      : message;
    throw new InvalidOptionError("tls", `cannot be used: ${problem}`);
  }
  // Without one, OpenSSL would trust none, and say nothing.
  if (tls.clientCa === undefined) return;
  if (!/BEGIN [A-Z0-9 ]*CERTIFICATE/.test(tls.clientCa)) {
    throw new InvalidOptionError("tls.clientCa", "must have a certificate in PEM");
  }
  checkWhole("tls.clientCa", tls.clientCa);
}

/** @throws InvalidOptionError */
function checkWhole(path: string, pem: string): void {
  const { X509Certificate } = process.getBuiltinModule("crypto");
  const damaged = damagedCertificate(pem, X509Certificate);
  if (damaged === null) return;
  const remedy = "copy it whole, with its first and last line, and a line break after each";
  throw new InvalidOptionError(path, `certificate ${damaged} is damaged: ${remedy}`);
}

/** @throws InvalidOptionError */
export function createTlsServer(tls: ServerTls, options: ServerOptions): Server {
  checkTls(tls);
  const server = createServer({
    ...options,
    ...contextOf(tls),
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    // Also without authorities: a later pair may come with some.
    requestCert: true,
    // The handshake would also refuse clients without a certificate.
    rejectUnauthorized: false,
  });
  noteAuthorities(server, tls);
  return server;
}

/**
 * Uses other certificates for connections from now on. Those that exist go on, and sessions of the former certificates
 * are not resumed.
 * @throws InvalidOptionError, and the former ones stay
 */
export function changeTls(server: Server, tls: ServerTls): void {
  checkTls(tls);
  server.setSecureContext(contextOf(tls));
  noteAuthorities(server, tls);
}

/** Connections whose handshake is not done. Node's server closes those only that have sent a request. */
export class Handshakes {
  /** By the address and port of the client, which the socket of TLS has in common with the one below it. */
  readonly #open = new Map<string, Socket>();
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #failed: Sampler;

  constructor(
    server: Server,
    { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
  ) {
    this.#clock = clock;
    this.#logger = logger;
    this.#failed = new Sampler(clock, { most: 1, everyMs: LOG_EVERY_MS }, (failed) => {
      logger.info({ event: "handshakes_failed", failed }, "further TLS handshakes failed");
    });
    server.on("connection", (socket: Socket) => {
      const id = idOf(socket);
      if (id === undefined) return;
      this.#open.set(id, socket);
      socket.once("close", () => {
        if (this.#open.get(id) === socket) this.#open.delete(id);
      });
    });
    server.on("secureConnection", (socket: TLSSocket) => {
      this.#open.delete(idOf(socket) ?? "");
      if (socket.authorized || !verifying.has(server)) return;
      if (socket.getPeerX509Certificate() === undefined) return;
      this.#log(`${socket.authorizationError}`, socket.remoteAddress);
      socket.destroy();
    });
    server.on("tlsClientError", (error: NodeJS.ErrnoException, socket: TLSSocket) => {
      // Load balancers probe a port in this way.
      if (error.code === "ECONNRESET") return;
      this.#log(error.code ?? error.message, socket.remoteAddress);
      if (error.code === "ERR_SSL_HTTP_REQUEST") this.#answer(this.#open.get(idOf(socket) ?? ""));
    });
  }

  /** Cuts them off. */
  closeAll(): void {
    for (const socket of this.#open.values()) socket.destroy();
  }

  stopLogging(): void {
    this.#failed.close();
  }

  #answer(socket: Socket | undefined): void {
    if (!socket?.writable) return;
    socket.end(rawAnswer(PLAIN));
    const timer = this.#clock.timer(LINGER_MS, () => socket.destroy(), { background: true });
    socket.once("close", () => timer.cancel());
  }

  #log(reason: string, address: string | undefined): void {
    if (!this.#failed.admits()) return;
    const fields = { event: "handshakes_failed", failed: 1, reason, address };
    this.#logger.info(fields, "a TLS handshake failed");
  }
}

/** Undefined if the client has already disconnected. */
function idOf({ remoteAddress, remotePort }: Socket): string | undefined {
  return remoteAddress === undefined ? undefined : `${remoteAddress} ${remotePort}`;
}
