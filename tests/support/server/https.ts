/** Requests over TLS, one connection each. */
import { type RequestOptions, request } from "node:https";
import { text } from "node:stream/consumers";
import type { PeerCertificate, TLSSocket } from "node:tls";

export interface HttpsReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
  /** Of the server. */
  readonly certificate: PeerCertificate;
  readonly protocol: string | null;
}

/**
 * @param options the certificates of the client and of the authority, as text, and what else node's request takes
 */
export function askHttps(
  url: string,
  { body, ...options }: RequestOptions & { readonly body?: string } = {},
): Promise<HttpsReply> {
  return new Promise((resolve, reject) => {
    const asking = request(url, { agent: false, ...options }, (answer) => {
      const socket = answer.socket as TLSSocket;
      const [certificate, protocol] = [socket.getPeerCertificate(), socket.getProtocol()];
      const { statusCode: status = 0, headers } = answer;
      text(answer).then(
        (read) => resolve({ status, headers, body: read, certificate, protocol }),
        reject,
      );
    });
    asking.once("error", reject);
    asking.end(body);
  });
}
