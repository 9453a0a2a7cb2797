/** Lease ids and grant ids as they travel. */

/**
 * A lease id as it travels: the resource as base64url, a dot, the 48 hex digits. It finds its own
 * resource, and like them it is a secret.
 */
export function toWireLeaseId(resource: string, leaseId: string): string {
  return located(resource, leaseId);
}

/** The resource and the bare id; null if the text is no lease id. One grant has one spelling. */
export function fromWireLeaseId(text: string): { resource: string; leaseId: string } | null {
  const found = locate(text, 48);
  return found && { resource: found.resource, leaseId: found.id };
}

/** The public name of a grant as it travels: as its lease id, with the grantId's 16 hex digits. */
export function toWireGrantId(resource: string, grantId: string): string {
  return located(resource, grantId);
}

export function fromWireGrantId(text: string): { resource: string; grantId: string } | null {
  const found = locate(text, 16);
  return found && { resource: found.resource, grantId: found.id };
}

/** ASCII is its own UTF-8, and most names are ASCII. */
const PLAIN = /^[ -~]+$/;

function located(resource: string, id: string): string {
  const binary = PLAIN.test(resource)
    ? resource
    : String.fromCharCode(...new TextEncoder().encode(resource));
  const base64 = btoa(binary);
  const base64url = base64.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  return `${base64url}.${id}`;
}

const LOCATED = /^([A-Za-z0-9_-]{2,344})\.([0-9a-f]+)$/;

function locate(text: string, digits: number): { resource: string; id: string } | null {
  const [, base64url, id] = LOCATED.exec(text) ?? [];
  if (base64url === undefined || id?.length !== digits) return null;
  try {
    const binary = atob(base64url.replaceAll("-", "+").replaceAll("_", "/"));
    const resource = PLAIN.test(binary) ? binary : decoded(binary);
    return located(resource, id) === text ? { resource, id } : null;
  } catch {
    return null;
  }
}

/** @throws TypeError unless the bytes are UTF-8 */
function decoded(binary: string): string {
  const bytes = Uint8Array.from(binary, (char) => char.charCodeAt(0));
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
}
