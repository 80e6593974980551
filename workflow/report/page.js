"use strict";
// Theme: the system's until the reader chooses. Storage may be closed to pages opened from disk.
const themeButton = document.getElementById("theme");
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme || (systemDark.matches ? "dark" : "light")) === "dark";
function nameTheme() { themeButton.textContent = isDark() ? "Light theme" : "Dark theme"; }
try {
  const kept = localStorage.getItem("scaling-study-theme");
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
} catch { /* the page then begins with the system's theme */ }
themeButton.hidden = false;
themeButton.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("scaling-study-theme", document.documentElement.dataset.theme); } catch { /* as above */ }
  nameTheme();
});
systemDark.addEventListener("change", nameTheme);
nameTheme();

// Copy a command. If the clipboard is not permitted, the command is selected, ready for the copy key.
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = document.execCommand("copy") ? "Copied" : "Selected: press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2500);
  });
}

// Sort a table by a column: numbers from data-value, names as text; missing values come last.
function sortBy(header, direction) {
  const table = header.closest("table");
  const column = [...header.parentNode.children].indexOf(header);
  const sign = direction === "ascending" ? 1 : -1;
  const key = (row) => row.children[column].dataset.value ?? row.children[column].textContent.trim();
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === "" || y === "") return (x === "") - (y === "");
    return sign * (Number.isNaN(Number(x)) || Number.isNaN(Number(y)) ? x.localeCompare(y) : x - y);
  });
  table.tBodies[0].append(...rows);
  for (const other of header.parentNode.children) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", direction);
}
for (const header of document.querySelectorAll("table[data-sort] thead th")) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...header.childNodes);
  header.append(button);
  button.addEventListener("click", () => {
    const first = header.classList.contains("number") ? "descending" : "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    sortBy(header, header.getAttribute("aria-sort") === first ? other : first);
  });
}

// Long tables begin folded; without this script they are simply long.
for (const button of document.querySelectorAll("button[data-unfold]")) {
  const table = document.getElementById(button.dataset.unfold);
  const fold = () => {
    [...table.tBodies[0].rows].forEach((row, index) => row.classList.toggle("late", index >= Number(button.dataset.keep)));
  };
  table.classList.add("folded");
  button.hidden = false;
  fold();
  table.addEventListener("click", fold);
  button.addEventListener("click", () => { table.classList.remove("folded"); button.hidden = true; });
}
