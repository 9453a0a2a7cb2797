/** The certificate with which a client has opened its connection. */
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { ClientCertificate } from "./auth/certificates.js";

type X509Certificate = NonNullable<ReturnType<TLSSocket["getPeerX509Certificate"]>>;

const known = new WeakMap<Socket, ClientCertificate | null>();

/** Undefined unless the handshake has verified one. */
export function certificateOf(socket: Socket): ClientCertificate | undefined {
  if (!isTls(socket) || !socket.authorized) return undefined;
  let certificate = known.get(socket);
  if (certificate === undefined) {
    const presented = socket.getPeerX509Certificate();
    certificate = presented ? describe(presented) : null;
    known.set(socket, certificate);
  }
  return certificate ?? undefined;
}

/** @internal */
export function describe(certificate: X509Certificate): ClientCertificate {
  const { fingerprint256, subject, subjectAltName = "", validTo } = certificate;
  return {
    identities: [
      `sha256:${fingerprint256.replaceAll(":", "").toLowerCase()}`,
      // The last name first, as RFC 4514 writes them.
      `subject:${(subject ?? "").trim().split("\n").reverse().join(",")}`,
      ...namesOf(subjectAltName),
    ],
    validToMs: Date.parse(validTo),
  };
}

const KINDS: Readonly<Record<string, string>> = { DNS: "dns", URI: "uri", email: "email" };

/**
 * `DNS:a.example, URI:"a, b"`: names that could be taken for several are JSON. Without a name that does not have this form,
 * and all that follow it: the certificate then has fewer names, and never those of another one.
 */
function namesOf(text: string): string[] {
  const names: string[] = [];
  const one = /([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^",]*)(?:, |$)/y;
  for (let found = one.exec(text); found !== null; found = one.exec(text)) {
    const [, kind = "", shown = ""] = found;
    const name = KINDS[kind];
    if (name === undefined || shown === "") continue;
    const value = shown.startsWith('"') ? (JSON.parse(shown) as string) : shown;
    names.push(`${name}:${name === "dns" ? value.toLowerCase() : value}`);
  }
  return names;
}

function isTls(socket: Socket): socket is TLSSocket {
  return "authorized" in socket && "getPeerX509Certificate" in socket;
}
