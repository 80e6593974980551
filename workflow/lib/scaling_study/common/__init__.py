"""Code that every stage uses: files, problems, quantities, CPU lists."""
