import { render } from "preact";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/parts.css";
import "./styles/pages.css";
import "./styles/overview.css";
import "uplot/dist/uPlot.min.css";
import { App } from "./app.tsx";
import { applyTheme, storedTheme } from "./theme.ts";

applyTheme(storedTheme());
const root = document.getElementById("root");
if (root !== null) render(<App />, root);
