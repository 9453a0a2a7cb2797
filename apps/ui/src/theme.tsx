/** The theme: light, dark, or that of the system. */
import { createContext, type ReactNode, useContext, useEffect, useState } from "react";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const STORED = "leasehold.theme";
const DARK = matchMedia("(prefers-color-scheme: dark)");

interface Themed {
  readonly theme: Theme;
  readonly dark: boolean;
  readonly choose: (theme: Theme) => void;
}
const ThemeContext = createContext<Themed>({ theme: "system", dark: false, choose: () => {} });

/** The theme of the page that shows this one in a frame, as `?theme=dark`. */
function given(): Theme | undefined {
  const theme = new URLSearchParams(location.search).get("theme");
  return THEMES.find((known) => known === theme);
}

function stored(): Theme {
  const theme = given();
  if (theme) return theme;
  return THEMES.find((known) => known === localStorage.getItem(STORED)) ?? "system";
}
const isDark = (theme: Theme) => theme === "dark" || (theme === "system" && DARK.matches);
function apply(theme: Theme): void {
  document.documentElement.dataset.theme = isDark(theme) ? "dark" : "light";
}
// Before the first paint.
apply(stored());

export function ThemeProvider({ children }: { readonly children: ReactNode }) {
  const [theme, setTheme] = useState(stored);
  const [, redraw] = useState(0);
  useEffect(() => {
    const follow = () => {
      apply(theme);
      redraw((count) => count + 1);
    };
    follow();
    DARK.addEventListener("change", follow);
    return () => DARK.removeEventListener("change", follow);
  }, [theme]);
  useEffect(() => {
    // The page around this one has changed its theme.
    const change = ({ origin, data }: MessageEvent) => {
      if (origin !== location.origin || !given()) return;
      const next = THEMES.find((known) => known === (data as { theme?: unknown } | null)?.theme);
      if (next) setTheme(next);
    };
    window.addEventListener("message", change);
    return () => window.removeEventListener("message", change);
  }, []);
  const choose = (next: Theme) => {
    localStorage.setItem(STORED, next);
    apply(next);
    setTheme(next);
  };
  return <ThemeContext value={{ theme, dark: isDark(theme), choose }}>{children}</ThemeContext>;
}

export const useTheme = (): Themed => useContext(ThemeContext);
