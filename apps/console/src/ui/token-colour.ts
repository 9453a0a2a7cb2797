/**
 * The hue of a fencing token: the golden angle sets neighbours far apart on the wheel, and the same
 * token has the same colour in every list, bar and ring. Tokens by the clock (microseconds) differ in
 * their last digits, so those count.
 */
const GOLDEN_ANGLE = 137.508;
const DISTINCT = 1_000_003;
/** Of token 1: a green-blue that is neither success nor danger. */
const FIRST_HUE = 210;

function tokenHue(token: number): number {
  return Math.round((FIRST_HUE + ((token - 1) % DISTINCT) * GOLDEN_ANGLE) % 360);
}

/** For an element's `style`: what `token-ink`, `token-soft`, `token-fill` and `token-stroke` go by. */
export function tokenStyle(token: number): React.CSSProperties {
  return { "--token-hue": String(tokenHue(token)) } as React.CSSProperties;
}
