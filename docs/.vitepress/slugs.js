/**
 * The anchor of a heading as GitHub makes it, so that a link leads to it there and on the site.
 * @param {string} heading its text
 */
export function slugOf(heading) {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replace(/\s/g, "-");
}
