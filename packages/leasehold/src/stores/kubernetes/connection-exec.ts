/**
 * Plugins of a kubeconfig, which print a token or a certificate: client.authentication.k8s.io/v1 and v1beta1.
 *
 *   run ──▶ used ──▶ soon expired ──▶ run in the background, used meanwhile
 *             ├───── expired ──────▶ run, and requests wait for it
 *             └───── refused ──────▶ run
 *
 * A credential without an expiry is used until the server refuses it. One run serves all requests.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { dirname, resolve } from "node:path";
import type { Clock } from "../../env/index.js";
import {
  type LeaseholdError,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../../lease/index.js";
import type { Credentials } from "./connection-access.js";

/** A user's `exec` in a kubeconfig. */
export interface ExecConfig {
  readonly apiVersion: string;
  readonly command: string;
  readonly args?: readonly string[] | null;
  readonly env?: readonly { readonly name: string; readonly value: string }[] | null;
  readonly installHint?: string;
  readonly interactiveMode?: string;
  readonly provideClusterInfo?: boolean;
}

export interface Plugin {
  readonly config: ExecConfig;
  /** The kubeconfig, whose folder a relative path of the command begins at. */
  readonly path: string;
  /** As the plugin gets it, if it asks for it. */
  readonly cluster: object;
}

interface ExecCredential {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly status?: {
    readonly expirationTimestamp?: string;
    readonly token?: string;
    readonly clientCertificateData?: string;
    readonly clientKeyData?: string;
  } | null;
}

/** By the wall clock, as plugins say it; without an expiry, never. */
interface Printed {
  readonly credentials: Credentials;
  readonly soonMs: number;
  readonly endMs: number;
}

const API_VERSION = /^client\.authentication\.k8s\.io\/(v1|v1beta1)$/;
/** Plugins that open a browser would take longer, but there may be no person. */
const LONGEST_RUN_MS = 60_000;
const MOST_OUTPUT = 1024 * 1024;
/** A plugin is run again this long before the end, or after half the time if that is later. */
const BEFORE_END_MS = 30_000;

export class ExecPlugin {
  readonly #plugin: Plugin;
  readonly #clock: Clock;
  #printed: Printed | undefined;
  #running: Promise<Printed> | undefined;
  #child: ChildProcess | undefined;

  /** @throws STORE_MISCONFIGURED for a plugin that cannot be run */
  constructor(plugin: Plugin, clock: Clock) {
    this.#plugin = plugin;
    this.#clock = clock;
    const { apiVersion, command, interactiveMode } = plugin.config;
    if (!command) throw this.#misconfigured("has no command");
    if (!API_VERSION.test(apiVersion)) {
      throw this.#misconfigured(
        `has the apiVersion ${apiVersion}: client.authentication.k8s.io/v1 is supported`,
      );
    }
    if (interactiveMode === "Always")
      throw this.#misconfigured("needs a terminal (interactiveMode: Always)");
  }

  /**
   * @param again the server refused the last ones
   * @throws STORE_UNAVAILABLE, STORE_MISCONFIGURED, naming the plugin
   */
  async credentials(again: boolean): Promise<Credentials> {
    const nowMs = this.#clock.wall();
    const printed = this.#printed;
    if (again || !printed || nowMs >= printed.endMs) return (await this.#renewed()).credentials;
    // If it fails, the next request runs it again.
    if (nowMs >= printed.soonMs) this.#renewed().catch(() => {});
    return printed.credentials;
  }

  /** Ends a run. */
  close(): void {
    this.#child?.kill("SIGKILL");
    // A program that it has started may hold this open.
    this.#child?.stdout?.destroy();
  }

  #renewed(): Promise<Printed> {
    this.#running ??= this.#run()
      .then((output) => (this.#printed = this.#read(output)))
      .finally(() => {
        this.#running = undefined;
      });
    return this.#running;
  }

  #run(): Promise<string> {
    const { config, path, cluster } = this.#plugin;
    const { apiVersion, command, args, env, provideClusterInfo, installHint } = config;
    const spec = { interactive: false, ...(provideClusterInfo && { cluster }) };
    const info = JSON.stringify({ kind: "ExecCredential", apiVersion, spec });
    const program = /[/\\]/.test(command) ? resolve(dirname(path), command) : command;
    return new Promise((done, fail) => {
      const child = spawn(program, args ?? [], {
        // Its messages go where those of this process go, as with kubectl. They may not suit an error.
        stdio: ["ignore", "pipe", "inherit"],
        env: {
          ...process.env,
          ...Object.fromEntries((env ?? []).map(({ name, value }) => [name, value])),
          KUBERNETES_EXEC_INFO: info,
        },
      });
      this.#child = child;
      const timer = this.#clock.timer(LONGEST_RUN_MS, () => this.close(), { background: true });
      let output = "";
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        output += text;
        if (output.length > MOST_OUTPUT) this.close();
      });
      child.once("error", (error) => {
        timer.cancel();
        const hint = installHint ? `; ${installHint}` : "";
        fail(this.#misconfigured(`could not be started: ${error.message}${hint}`));
      });
      child.once("close", (code, signal) => {
        timer.cancel();
        if (code === 0) return done(output);
        const how = signal ? `was ended by ${signal}` : `ended with exit code ${code}`;
        fail(this.#failed(`${how}; see what it wrote to standard error`));
      });
    });
  }

  /** No error quotes the output, which has secrets. */
  #read(output: string): Printed {
    let printed: ExecCredential | null;
    try {
      printed = JSON.parse(output) as ExecCredential | null;
    } catch {
      throw this.#failed("printed no JSON");
    }
    const { apiVersion } = this.#plugin.config;
    if (printed?.kind !== "ExecCredential" || printed.apiVersion !== apiVersion) {
      throw this.#failed(`printed no ExecCredential of ${apiVersion}`);
    }
    const {
      token,
      clientCertificateData: cert,
      clientKeyData: key,
      expirationTimestamp,
    } = printed.status ?? {};
    if (!token && !cert) throw this.#failed("printed neither a token nor a certificate");
    if (!cert !== !key) throw this.#failed("printed a certificate without its key, or a key alone");
    const credentials: Credentials = {
      headers: token ? { authorization: `Bearer ${token}` } : {},
      tls: cert ? { cert, key } : {},
    };
    if (!expirationTimestamp) return { credentials, soonMs: Infinity, endMs: Infinity };
    const endMs = Date.parse(expirationTimestamp);
    if (Number.isNaN(endMs)) throw this.#failed("printed an expirationTimestamp that is no time");
    const leftMs = endMs - this.#clock.wall();
    return { credentials, soonMs: endMs - Math.min(leftMs / 2, BEFORE_END_MS), endMs };
  }

  #name(): string {
    return `the exec plugin ${this.#plugin.config.command} of the kubeconfig ${this.#plugin.path}`;
  }

  #misconfigured(what: string): LeaseholdError {
    return new StoreMisconfiguredError(`${this.#name()} ${what}`);
  }

  #failed(what: string): LeaseholdError {
    return new StoreUnavailableError(`${this.#name()} ${what}`, { outcome: "none" });
  }
}
