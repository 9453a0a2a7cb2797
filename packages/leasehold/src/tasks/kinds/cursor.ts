/** Where the next page of published kinds begins. */
import { checkName, InvalidOptionError } from "../../core/index.js";
import type { KindKey } from "./port.js";

type Place = Pick<KindKey, "kind" | "version">;

export function kindCursor({ kind, version }: Place): string {
  return `${version}:${kind}`;
}

/**
 * The version of a kind after which a page begins; before all of them without a cursor.
 * @throws InvalidOptionError for a cursor that no page has given
 */
export function placeOfCursor(cursor: string | undefined): Place {
  if (cursor === undefined) return { kind: "", version: 0 };
  const [, version, kind] = /^(\d{1,5}):(.+)$/s.exec(cursor) ?? [];
  if (!version) throw new InvalidOptionError("cursor", "must come from a page of kinds");
  checkName("cursor", kind);
  return { kind, version: Number(version) };
}
