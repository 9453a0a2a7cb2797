/**
 * Cursors of lists of leases: the resource after which the next page begins, with a mark. Any name could be
 * a resource, so without the mark a mistyped cursor would select an empty page instead of being refused.
 */
import { InvalidOptionError } from "./errors.js";
import { checkName } from "./names.js";

const MARK = "after:";

/**
 * The cursor of the page that begins after `resource`.
 * @example
 * ```ts
 * import { cursorAfter } from "leasehold/port";
 *
 * const page = { items: ["billing", "mail"], nextCursor: cursorAfter("mail") };
 * console.log("the next page begins at", page.nextCursor);
 * ```
 */
export function cursorAfter(resource: string): string {
  return MARK + resource;
}

/**
 * The resource after which the page of a cursor begins.
 * @throws InvalidOptionError for a cursor that no page has given
 * @example
 * ```ts
 * import { cursorAfter, resourceOfCursor } from "leasehold/port";
 *
 * console.log("the page begins after", resourceOfCursor(cursorAfter("mail")));
 * ```
 */
export function resourceOfCursor(cursor: string): string {
  if (!cursor.startsWith(MARK)) {
    throw new InvalidOptionError("cursor", "must come from a page of leases");
  }
  const resource = cursor.slice(MARK.length);
  checkName("cursor", resource);
  return resource;
}
