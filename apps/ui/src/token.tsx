import { classNames } from "./class-names.js";
import { tokenStyle } from "./token-colour.js";

/** A fencing token in its colour; null shows "none". */
export function Token({
  token,
  large = false,
}: {
  readonly token: number | null;
  readonly large?: boolean;
}) {
  if (token === null) return <span className="text-muted">none</span>;
  return (
    <span
      style={tokenStyle(token)}
      title={`fencing token ${token}`}
      className={classNames(
        "token-soft token-ink inline-flex items-center gap-1.5 rounded px-1.5 font-mono font-semibold tabular whitespace-nowrap",
        large ? "py-1 text-base" : "py-px text-xs",
      )}
    >
      <span aria-hidden="true" className="token-fill size-1.5 rounded-full" />
      {token}
    </span>
  );
}
