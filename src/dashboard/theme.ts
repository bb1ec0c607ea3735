import { Observable } from "./observable.ts";

export const THEMES = ["auto", "light", "dark"] as const;

export type Theme = (typeof THEMES)[number];

const KEY = "zae-limiter.theme";

/** The theme that was chosen last; `auto` follows the system. */
export function storedTheme(): Theme {
  const stored = read(() => localStorage.getItem(KEY));
  return THEMES.find((theme) => theme === stored) ?? "auto";
}

/** The colours in force. A canvas has to be drawn again when they change. */
export const colours = new Observable<"light" | "dark">("light");

export function applyTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const tell = () => colours.set((theme === "auto" ? dark.matches : theme === "dark") ? "dark" : "light");
  dark.onchange = tell;
  tell();
  read(() => localStorage.setItem(KEY, theme));
}

/** The token of this tab. It is never in a URL or a cookie, and is gone when the tab is closed. */
export const tokenKeeper = {
  get: (): string | undefined => read(() => sessionStorage.getItem("zae-limiter.token")) ?? undefined,
  set: (token: string): void => void read(() => sessionStorage.setItem("zae-limiter.token", token)),
  clear: (): void => void read(() => sessionStorage.removeItem("zae-limiter.token")),
};

export const namespaceKeeper = {
  get: (): string | undefined => read(() => sessionStorage.getItem("zae-limiter.namespace")) ?? undefined,
  set: (name: string): void => void read(() => sessionStorage.setItem("zae-limiter.namespace", name)),
};

/** Uses the storage of the browser. It may be disabled; then nothing is kept. */
function read<Value>(use: () => Value): Value | undefined {
  try {
    return use();
  } catch {
    return undefined;
  }
}
