// The line between input and result follows the slider that lies over them.
document.addEventListener("input", ({ target }) => {
  if (target.type === "range") target.parentElement.style.setProperty("--cut", `${target.value}%`);
});
