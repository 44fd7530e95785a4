"""elmokit inside other ecosystems, one file each; imported only by those who use them."""
