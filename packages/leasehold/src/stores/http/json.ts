/** The JSON of requests with values of users. */

/**
 * As `JSON.stringify`, but integers beyond 2^53 have an exponent. Written as digits they are refused by servers, which
 * cannot know that they are doubles of JavaScript, where nothing is left to round.
 */
export function jsonOf(value: unknown): string {
  const json = JSON.stringify(value);
  if (!LONG.test(json)) return json;
  let isInString = false;
  return json.replace(TOKEN, (token) => {
    if (token === '"') isInString = !isInString;
    if (isInString || !/^\d/.test(token) || Number(token) <= Number.MAX_SAFE_INTEGER) return token;
    return Number(token).toExponential();
  });
}

/** An integer that may be beyond 2^53. */
const LONG = /[1-9]\d{16}|9\d{15}/;
const TOKEN = /\\.|"|\d[\d.]*/g;
