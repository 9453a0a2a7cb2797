/** Connections through the proxy that a kubeconfig names (`proxy-url`), by CONNECT. */
import { type ClientRequestArgs, Agent as HttpAgent, request as httpRequest } from "node:http";
import { type AgentOptions, Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import { type ConnectionOptions, connect } from "node:tls";
import { StoreMisconfiguredError } from "../../lease/index.js";

const TIMEOUT_MS = 10_000;

type Done = (error: Error | null, socket?: Socket) => void;

/**
 * @param secure whether the server behind the proxy speaks TLS
 * @throws STORE_MISCONFIGURED for the URL of no such proxy
 */
export function proxyAgent(url: string, secure: boolean, options: AgentOptions): HttpAgent {
  const proxy = URL.canParse(url) ? new URL(url) : undefined;
  if (proxy?.protocol !== "http:" && proxy?.protocol !== "https:") {
    // The URL may have a password.
    throw new StoreMisconfiguredError(
      "the kubeconfig's proxy-url must begin with http:// or https://: others, such as socks5://, are not supported",
    );
  }
  const agent = secure ? new HttpsAgent(options) : new HttpAgent(options);
  const createConnection = (to: ClientRequestArgs, done: Done) => {
    openTunnel(proxy, to, (error, socket) => {
      if (error || !socket) return done(error);
      done(null, secure ? connect({ ...to, socket } as ConnectionOptions) : socket);
    });
  };
  return Object.assign(agent, { createConnection });
}

function openTunnel(proxy: URL, { host, port }: ClientRequestArgs, done: Done): void {
  const path = `${host?.includes(":") ? `[${host}]` : host}:${port}`;
  const login = [proxy.username, proxy.password].map(decodeURIComponent).join(":");
  const request = (proxy.protocol === "https:" ? httpsRequest : httpRequest)({
    method: "CONNECT",
    host: proxy.hostname.replace(/^\[|\]$/g, ""),
    port: proxy.port || (proxy.protocol === "https:" ? 443 : 80),
    path,
    headers: {
      host: path,
      ...(login !== ":" && {
        "proxy-authorization": `Basic ${Buffer.from(login).toString("base64")}`,
      }),
    },
    agent: false,
    timeout: TIMEOUT_MS,
  });
  const where = proxy.host;
  request.once("connect", ({ statusCode }, socket) => {
    // The connection is no longer the request's.
    request.removeAllListeners();
    socket.removeAllListeners().setTimeout(0);
    if (statusCode === 200) return done(null, socket);
    socket.destroy();
    done(new Error(`the proxy ${where} answers ${statusCode} to CONNECT`));
  });
  request.once("timeout", () => request.destroy(new Error(`the proxy ${where} does not answer`)));
  request.once("error", (error) => done(error));
  request.end();
}
