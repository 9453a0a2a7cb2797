/**
 * The certificates of a server, from files, and read again when these change:
 *
 *   a file's folder changes, SIGHUP, or a minute has passed ──▶ read ─┬─ as before ─▶ nothing
 *                                                                     ├─ in order ──▶ used for new connections
 *                                                                     └─ wrong ─────▶ logged, and the former ones stay
 *
 * Folders are watched, and not files: Kubernetes replaces a link to the folder of all files, and certbot links.
 */

import { X509Certificate } from "node:crypto";
import { type FSWatcher, realpathSync, watch } from "node:fs";
import { dirname } from "node:path";
import type { Env, Timer } from "leasehold";
import { type ApiKeyStore, repeat } from "leasehold/internal";
import type { ClientCertificate, Listening, ServerTls } from "../http/index.js";
import { type ClientKeys, keyIn, parseClientKeys } from "./client-keys.js";
import { UsageError } from "./failures.js";
import { readBytes } from "./files.js";

export interface TlsPaths {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string | undefined;
  /** The list that assigns keys to certificates of clients. */
  readonly clientKeys?: string | undefined;
}

/** Files that change together are read together. */
const SETTLE_MS = 500;
/** File systems that report no changes, as those of networks. */
const READ_EVERY_MS = 60_000;
const EXPIRES_SOON_MS = 14 * 24 * 3_600_000;
const WARN_EVERY_MS = 24 * 3_600_000;

const CERTIFICATES = /^-----BEGIN [^]*?^-----END .*$/gm;
/** serverAuth, and any use, by their object identifiers in RFC 5280, section 4.2.1.12. */
const FOR_SERVERS: ReadonlySet<string> = new Set(["1.3.6.1.5.5.7.3.1", "2.5.29.37.0"]);

type Texts = ServerTls & { readonly clientKeys?: string };

export class TlsFiles {
  readonly #paths: TlsPaths;
  readonly #env: Env;
  #texts: Texts;
  #keys: ClientKeys;
  /** Where the keys are that the list assigns; undefined: the store keeps none. */
  #keyStore: Pick<ApiKeyStore, "find"> | undefined;
  /** Of the last failure, which is logged once. */
  #failure = "";
  #warnedMs = -Infinity;
  #onHangUp = () => {};

  private constructor(paths: TlsPaths, env: Env, texts: Texts) {
    this.#paths = paths;
    this.#env = env;
    this.#texts = texts;
    this.#keys = keysIn(paths, texts);
    // From now on: while the server starts, the signal would end the process.
    process.on("SIGHUP", () => this.#onHangUp());
  }

  /** @throws UsageError if a file cannot be read, or the list of keys is wrong */
  static async read(paths: TlsPaths, env: Env): Promise<TlsFiles> {
    return new TlsFiles(paths, env, await read(paths));
  }

  get tls(): ServerTls {
    const { cert, key, clientCa } = this.#texts;
    return { cert, key, clientCa };
  }

  /** By the list as it is now. */
  readonly keyOf = (certificate: ClientCertificate): string | null =>
    keyIn(this.#keys, certificate);

  /**
   * Follows the files from now on.
   * @param keyStore where the keys are that the list assigns, if the store keeps any
   * @returns a function that ends it
   */
  follow(
    server: Pick<Listening, "changeTls">,
    keyStore: Pick<ApiKeyStore, "find"> | undefined,
  ): () => Promise<void> {
    const { clock, logger } = this.#env;
    this.#keyStore = keyStore;
    this.#describe("serving with this certificate");
    void this.#warnOfKeys();
    let settling: Timer | undefined;
    const later = () => {
      settling?.cancel();
      settling = clock.timer(SETTLE_MS, () => void this.#readAgain(server), {
        background: true,
      });
    };
    const watchers = this.#watch(later);
    const reading = repeat(this.#env, "read the certificates", READ_EVERY_MS, async () => {
      this.#warnOfExpiry();
      await this.#readAgain(server);
    });
    this.#onHangUp = () => {
      logger.info({ event: "tls_reload" }, "SIGHUP: reading the certificates again");
      this.#failure = "";
      void this.#readAgain(server);
    };
    return async () => {
      this.#onHangUp = () => {};
      settling?.cancel();
      for (const watcher of watchers) watcher.close();
      await reading.stop();
    };
  }

  #watch(onChange: () => void): FSWatcher[] {
    const { cert, key, clientCa, clientKeys } = this.#paths;
    const paths = [cert, key, clientCa, clientKeys].filter((path) => path !== undefined);
    // The files may be links to others, which may be replaced in their own folder.
    const folders = new Set(paths.flatMap((path) => [dirname(path), dirname(realpathSync(path))]));
    return [...folders].flatMap((folder) => {
      try {
        const watcher = watch(folder, { persistent: false }, onChange);
        watcher.on("error", (err) => this.#warnOfWatch(folder, err));
        return [watcher];
      } catch (error) {
        this.#warnOfWatch(folder, error);
        return [];
      }
    });
  }

  #warnOfWatch(folder: string, err: unknown): void {
    const message = "changes of this folder are not reported: its files are read once a minute";
    this.#env.logger.warn({ folder, err }, message);
  }

  async #readAgain(server: Pick<Listening, "changeTls">): Promise<void> {
    const { logger } = this.#env;
    try {
      const texts = await read(this.#paths);
      if (isSame(texts, this.#texts)) return;
      const keys = keysIn(this.#paths, texts);
      const { cert, key, clientCa } = texts;
      server.changeTls({ cert, key, clientCa });
      this.#texts = texts;
      this.#keys = keys;
      this.#failure = "";
      this.#warnedMs = -Infinity;
      this.#describe("the certificates have changed: new connections use them");
      await this.#warnOfKeys();
    } catch (error) {
      const { message } = error as Error;
      if (message === this.#failure) return;
      this.#failure = message;
      const fields = { event: "tls_refused", error: message };
      logger.error(fields, "the changed certificates cannot be used: the former ones stay");
    }
  }

  #describe(message: string): void {
    const { fingerprint256, subject } = certificateIn(this.#texts);
    const expiresAt = new Date(this.#expiresMs()).toISOString();
    const fields = { event: "tls_certificate", expiresAt, subject, fingerprint: fingerprint256 };
    this.#env.logger.info(fields, message);
    this.#warnOfUse();
    this.#warnOfAuthorities();
    this.#warnOfExpiry();
  }

  /** Clients refuse such certificates, and the server learns nothing of it. */
  #warnOfUse(): void {
    const { clock, logger } = this.#env;
    const certificate = certificateIn(this.#texts);
    const { validFrom } = certificate;
    // Node leaves it out if a certificate has none, and is then for any use.
    const uses = certificate.keyUsage as readonly string[] | undefined;
    const fields = { event: "tls_unusable", validFrom: new Date(validFrom).toISOString() };
    if (Date.parse(validFrom) > clock.wall()) {
      logger.warn(
        fields,
        "the certificate is not valid yet, so clients refuse it: correct the clock, or replace its files",
      );
    }
    if (uses !== undefined && !uses.some((use) => FOR_SERVERS.has(use))) {
      logger.warn(
        fields,
        "the certificate is not one of a server, so clients refuse it: give it the extended key usage serverAuth",
      );
    }
  }

  /** Clients of such an authority are cut off, as if their own certificates were wrong. */
  #warnOfAuthorities(): void {
    const { clock, logger } = this.#env;
    for (const pem of this.#texts.clientCa?.match(CERTIFICATES) ?? []) {
      const { subject, issuer, validTo, ca } = new X509Certificate(pem);
      // One that has signed itself may be named alone, for the client that has it.
      if (!ca && subject !== issuer) {
        const fields = { event: "tls_unusable", subject };
        logger.warn(
          fields,
          "a certificate of --tls-client-ca is none of an authority, so clients are cut off: name the file of their authority",
        );
      }
      if (Date.parse(validTo) > clock.wall()) continue;
      const fields = { event: "tls_expires", subject, expiresAt: new Date(validTo).toISOString() };
      logger.warn(
        fields,
        "an authority of clients has expired, so they are cut off: replace its file",
      );
    }
  }

  /** Certificates without a key have no access, which only their clients would learn. */
  async #warnOfKeys(): Promise<void> {
    const { logger } = this.#env;
    if (this.#paths.clientKeys === undefined) return;
    const ids = [...new Set(this.#keys.values())];
    if (ids.length === 0) {
      logger.warn(
        { event: "client_keys" },
        "--tls-client-keys has no line, so no certificate has access: add one for each certificate",
      );
    }
    for (const keyId of ids) {
      try {
        if (await this.#keyStore?.find(keyId)) continue;
      } catch (err) {
        logger.debug({ err, keyId }, "whether a key of --tls-client-keys exists is not known");
        continue;
      }
      logger.warn(
        { event: "client_keys", keyId },
        "a key of --tls-client-keys does not exist, so its certificates have no access: correct the line, or create the key with leasehold keys create and write its id",
      );
    }
  }

  #warnOfExpiry(): void {
    const { clock, logger } = this.#env;
    const leftMs = this.#expiresMs() - clock.wall();
    const nowMs = clock.monotonic();
    if (leftMs > EXPIRES_SOON_MS || nowMs - this.#warnedMs < WARN_EVERY_MS) return;
    this.#warnedMs = nowMs;
    const fields = { event: "tls_expires", expiresAt: new Date(this.#expiresMs()).toISOString() };
    const message =
      leftMs > 0
        ? "the certificate expires soon: replace its files"
        : "the certificate has expired, so clients refuse it: replace its files";
    logger.warn(fields, message);
  }

  #expiresMs(): number {
    return Date.parse(certificateIn(this.#texts).validTo);
  }
}

/** The first one, which is the server's own. */
function certificateIn({ cert }: Texts): X509Certificate {
  return new X509Certificate(cert);
}

async function read(paths: TlsPaths): Promise<Texts> {
  const { cert, key, clientCa, clientKeys } = paths;
  return {
    cert: await textOf(cert, "--tls-cert"),
    key: await textOf(key, "--tls-key"),
    ...(clientCa !== undefined && { clientCa: await textOf(clientCa, "--tls-client-ca") }),
    ...(clientKeys !== undefined && { clientKeys: await textOf(clientKeys, "--tls-client-keys") }),
  };
}

/** The variables of the environment are named after the options. */
async function textOf(path: string, option: string): Promise<string> {
  if (path === "") throw new UsageError(`${option} (or its variable) is empty: name a file`);
  return new TextDecoder().decode(await readBytes(path));
}

function keysIn({ clientKeys: path }: TlsPaths, { clientKeys: text }: Texts): ClientKeys {
  return path === undefined || text === undefined ? new Map() : parseClientKeys(text, path);
}

function isSame(a: Texts, b: Texts): boolean {
  return (["cert", "key", "clientCa", "clientKeys"] as const).every((name) => a[name] === b[name]);
}
