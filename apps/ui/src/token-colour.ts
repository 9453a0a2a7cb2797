/**
 * The hue of a fencing token. The golden angle sets consecutive tokens far apart on the colour wheel, and
 * a token has the same colour in every list, bar and ring. Clock-based tokens (microseconds) differ in
 * their last digits, so the hue depends on those.
 */
const GOLDEN_ANGLE = 137.508;
const DISTINCT = 1_000_003;
/** The hue of token 1: a blue-green that means neither success nor danger. */
const FIRST_HUE = 210;

function tokenHue(token: number): number {
  return Math.round((FIRST_HUE + ((token - 1) % DISTINCT) * GOLDEN_ANGLE) % 360);
}

/** For an element's `style`: sets the hue that `token-ink`, `token-soft`, `token-fill` and others use. */
export function tokenStyle(token: number): React.CSSProperties {
  return { "--token-hue": String(tokenHue(token)) } as React.CSSProperties;
}
