/** What is wrong with JSON whose integers are too large for JavaScript; undefined if nothing is. */
export function roundedIn(json: string): string | undefined {
  const integer = inexactInteger(json);
  if (integer === undefined) return undefined;
  return `the integer ${integer}, beyond ${Number.MAX_SAFE_INTEGER}, which would be rounded: put it in quotes`;
}

/** The first integer of valid JSON that a number of JavaScript may not hold exactly. */
function inexactInteger(json: string): string | undefined {
  let isInString = false;
  for (const [token] of json.matchAll(/\\.|"|-?\d[\d.eE+-]*/g)) {
    if (token === '"') isInString = !isInString;
    else if (!isInString && /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token)))
      return token;
  }
  return undefined;
}
