/**
 * The `<base>` of a page: the console's root. Relative to the path that the server has seen, it is right unless a proxy
 * has decoded the path: `/lease/leases/billing%2Fe` of the browser is `/leases/billing/e` then, which has more folders.
 * So a script, which runs before the page loads any file, looks for that path at the end of the browser's own.
 */
import { digestOf } from "leasehold/internal";

/** A proxy may decode the path, and merge its slashes. */
const SCRIPT = String.raw`(() => {
  const base = document.querySelector("base");
  const { pathname } = location;
  const plain = (path) => decodeURIComponent(path).replace(/\/+/g, "/");
  try {
    const seen = plain(base.dataset.path);
    for (let at = 0; at >= 0; at = pathname.indexOf("/", at + 1)) {
      if (plain(pathname.slice(at)) !== seen) continue;
      base.href = pathname.slice(0, at + 1);
      break;
    }
  } catch {}
})();`;

/** For the policy: the only inline script that runs. */
export const BASE_SCRIPT_HASH = `'sha256-${base64Of(digestOf(SCRIPT))}'`;

/** For the beginning of the page's head. */
export function baseTags(path: string): string {
  const root = "../".repeat(depthOf(path)) || "./";
  return `<base href="${root}" data-path="${escaped(path)}"><script>${SCRIPT}</script>`;
}

/** Number of folders between the root and a page's path. */
function depthOf(path: string): number {
  return path.split("/").length - 2;
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
};

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (character) => ENTITIES[character] ?? "");
}

function base64Of(hex: string): string {
  const bytes = hex.match(/../g) ?? [];
  return btoa(String.fromCharCode(...bytes.map((byte) => Number.parseInt(byte, 16))));
}
